"""Stores: each durable record is there a moment later, nothing is rewritten, forks are refused."""

from __future__ import annotations

import fcntl
import itertools
import random
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.errors import CorruptSegmentError, InvalidOptionError, NotALogError, PositionError
from commitlog.keep import archive_segments, restore, target_of
from commitlog.log.open_log import view_of
from commitlog.log.parts import parts_of
from commitlog.repair.log_files import LogFiles
from commitlog.repair.verification import verify
from commitlog.stats import StoreStats
from commitlog.stores import stored_tail, storing
from commitlog.stores.contents import read_contents
from commitlog.stores.store_service import StoreService
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import StoreEnd, Storing
from commitlog.stores.tail_object import TailObject, join
from commitlog.stores.target import Target
from tests.length import every
from tests.setups import HEADER, SEGMENT, SETUPS, Logs, Setup, values
from tests.steps import killed_at

pytest.importorskip("zstandard")
Until = Callable[..., None]
SOON = 0.01


def service_of(log: CommitLog) -> StoreService:
    writer = parts_of(log).writer
    assert writer is not None
    assert writer.store is not None
    return writer.store


def stored_of(log: CommitLog) -> StoreStats:
    store = log.stats().store
    assert store is not None
    return store


def stored(place: Path) -> list[bytes]:
    with commitlog.open(place, "r") as copy:
        return values(copy)


def is_stored(log: CommitLog) -> bool:
    service = service_of(log)
    stored = service._rounds.storing.stored if service._rounds.is_compared else -1
    return stored >= log.flushed_position == log.tail_position


def store_end(tail: StoredTail, known: Storing, durable: int) -> None:
    """Store the end of a log in parts, as the service does."""
    while (step := known.next_step(first_here=0, durable=durable, is_sealed=False)) is not None:
        assert isinstance(step, StoreEnd)
        tail.store(step, known)


def names(place: Path) -> list[str]:
    """Return the objects of a store, without its sessions."""
    found = (path.name for path in place.iterdir() if not path.name.startswith("."))
    return sorted(name for name in found if not name.endswith(".epoch"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_durable_end_is_stored_while_the_log_is_open(
    logs: Logs, place: Path, until: Until, setup: Setup
) -> None:
    log = logs.open_as(setup, store=Store(place, every=SOON))
    log.append_many([b"one", b"two"])
    until(lambda: is_stored(log))
    log.append(b"three")
    until(lambda: is_stored(log))
    assert stored(place) == [b"one", b"two", b"three"]
    report = verify(place)
    assert (report.sound, report.records, report.end) == (True, 3, log.tail_position)


def test_store_stays_where_it_was_if_the_process_moves(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a daemon does, which goes to `/` after it has opened its log."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    log = logs.open(store=Store("store", every=3600))
    monkeypatch.chdir("elsewhere")
    log.append(b"one")
    log.close()
    assert stored(tmp_path / "store") == [b"one"]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_sealed_segments_replace_their_parts(logs: Logs, place: Path, until: Until) -> None:
    log = logs.open(store=Store(place, every=SOON))
    for number in range(3):
        log.append(b"%d" % number * 100)
        until(lambda: is_stored(log))
        log.roll()
    log.close()
    assert names(place)[-4:-1] == [f"{number * SEGMENT:020d}.seg.zst" for number in range(3)]
    assert all(f"-{3 * SEGMENT:020d}-" in name for name in names(place)[:-4])
    assert stored(place) == [b"%d" % number * 100 for number in range(3)]


def test_closed_log_is_stored_whole(logs: Logs, place: Path) -> None:
    log = logs.open(store=Store(place, every=3600))
    log.append_many([b"%d" % number * 500 for number in range(200)])
    log.append(b"last")
    log.close()
    assert stored(place)[-1] == b"last"
    with commitlog.open(place, "r") as copy:
        assert (copy.count(), copy.last_sequence) == (201, 200)


def test_reopened_log_continues_its_store(logs: Logs, place: Path) -> None:
    everything = []
    for run in range(4):
        log = logs.open(store=Store(place, every=3600))
        everything += [b"%d-%d" % (run, number) * 200 for number in range(60)]
        log.append_many(everything[-60:])
        log.close()
        assert stored(place) == everything
        assert verify(place).sound


def test_store_of_an_older_log_gets_its_segments(logs: Logs, place: Path) -> None:
    log = logs.open()
    for number in range(3):
        log.append(b"%d" % number)
        log.roll()
    log.close()
    log = logs.open(store=Store(place))
    log.append(b"on")
    log.close()
    assert stored(place) == [b"0", b"1", b"2", b"on"]
    assert sum(name.endswith(".seg.zst") for name in names(place)) == 3


def test_segment_that_is_not_stored_is_not_deleted(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"a file where the store's directory should be")
    log = logs.open(store=Store(blocked / "store", every=SOON))
    for _ in range(3):
        log.append(b"record")
        log.roll()
    log.flush()
    everything = Retention(max_bytes=0)
    assert log.prune(everything).stopped_by == f"it is not stored in {blocked}/store yet"
    blocked.unlink()
    until(lambda: service_of(log).kept_position == 3 * SEGMENT)
    assert len(log.prune(everything).segments) == 2
    log.close()
    assert stored(blocked / "store") == [b"record"] * 3


def test_second_handle_stores_once_the_first_is_closed(
    logs: Logs, place: Path, until: Until
) -> None:
    first = logs.open(store=Store(place, every=SOON))
    second = logs.open(store=Store(place, every=SOON))
    first.append(b"one")
    until(lambda: is_stored(first))
    assert not service_of(second)._rounds.is_compared
    first.close()
    second.append(b"two")
    until(lambda: is_stored(second))
    assert stored(place) == [b"one", b"two"]


def test_roll_into_a_missing_segment_stores_the_one_before(
    logs: Logs, place: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(store=Store(place, every=SOON), allocate_ahead=0)
    log.append(b"record")
    log.roll()
    until(lambda: service_of(log).kept_position == SEGMENT)
    assert names(place) == [f"{0:020d}.seg.zst", "log.json"]
    assert "cannot be stored" not in caplog.text
    assert stored(place) == [b"record"]


# --- parts ----------------------------------------------------------------------------------------


def test_many_small_parts_are_merged(logs: Logs, place: Path) -> None:
    log = logs.open(flush="sync")
    target = target_of(place)
    Store(place)
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    tail, known = StoredTail(target, LogFiles(log.path), 1), Storing(SEGMENT)
    appended = []
    for number in range(300):
        appended.append(b"%d" % number)
        log.append(appended[-1])
        store_end(tail, known, log.flushed_position)
        if number % 97 == 0:
            assert stored(place) == appended
    assert len(names(place)) - 1 <= 15 * 3
    assert stored(place) == appended


def test_join_takes_the_fewest_parts_of_the_last_session() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        objects = [
            TailObject(0, first, first + rng.randrange(1, 6), rng.randrange(3))
            for first in (rng.randrange(20) for _ in range(12))
        ]
        joined = join(objects, 0)
        at = 0
        for part in joined:
            assert part.first <= at < part.end
            onward = [each for each in objects if each.first <= at < each.end]
            assert part.session == max(each.session for each in onward)
            at = part.end
        assert not [each for each in objects if each.first <= at < each.end]


def test_unfit_names_are_no_parts() -> None:
    for good in (
        TailObject(3, SEGMENT, SEGMENT + 8, 3),  # of an earlier release
        TailObject(3, SEGMENT, SEGMENT + 8, 7, (1, 0xFFFFFFFF)),
    ):
        assert TailObject.named(good.name, SEGMENT) == good
    for bad in (
        TailObject(0, 8, 8),
        TailObject(0, 16, 8),
        TailObject(0, SEGMENT - 8, SEGMENT + 8),
    ):
        assert TailObject.named(bad.name, SEGMENT) is None
    assert TailObject.named("log.json", SEGMENT) is None


def test_reader_goes_on_when_parts_are_merged_meanwhile(
    logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MERGED", 4)
    log = logs.open(flush="sync")
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    tail, known = StoredTail(target_of(place), LogFiles(log.path), 1), Storing(SEGMENT)
    for number in range(3):
        log.append(b"%d" % number)
        store_end(tail, known, log.flushed_position)
    with commitlog.open(place, "r") as copy:
        listed = set(names(place))
        log.append(b"3")
        store_end(tail, known, log.flushed_position)
        assert not listed & set(names(place)) - {"log.json"}
        assert values(copy) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "longer"])
def test_damaged_part_is_named(logs: Logs, place: Path, harm: str) -> None:
    log = logs.open(store=Store(place))
    log.append(b"record" * 100)
    log.close()
    part = place / names(place)[0]
    content = part.read_bytes()
    middle = len(content) // 2
    part.write_bytes(
        {
            "cut": content[:middle],
            "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
            "longer": content + b"x",
        }[harm]
    )
    with pytest.raises(CorruptSegmentError, match=part.name):
        stored(place)
    report = verify(place)
    assert not report.sound


# --- retention in the store -----------------------------------------------------------------------


def _with_segments(logs: Logs, store: Store) -> CommitLog:
    log = logs.open(store=store)
    for number in range(5):
        log.append(b"%d" % number)
        log.roll()
    log.append(b"last")
    log.close()
    return log


@pytest.mark.parametrize("limit", [{"max_bytes": 1}, {"max_age": "0s"}], ids=str)
def test_limits_of_a_store_leave_its_last_whole_segment(
    logs: Logs, place: Path, tmp_path: Path, limit: dict[str, Any]
) -> None:
    log = _with_segments(logs, Store(place, **limit))
    assert stored(place) == [b"4", b"last"]
    assert verify(place).sound
    with commitlog.open(place, "r") as copy, commitlog.open(log.path, "r") as own:
        assert (copy.first_sequence, copy.last_sequence) == (4, 5)
        assert values(own) == [b"0", b"1", b"2", b"3", b"4", b"last"]
    restore(place, tmp_path / "again")
    with commitlog.open(tmp_path / "again") as again:
        assert (again.first_sequence, again.last_sequence) == (4, 5)


def test_limits_that_are_not_reached_delete_nothing(logs: Logs, place: Path) -> None:
    _with_segments(logs, Store(place, max_age="1d", max_bytes="1GiB"))
    assert stored(place) == [b"0", b"1", b"2", b"3", b"4", b"last"]


def test_deleted_segments_are_not_stored_again(logs: Logs, place: Path) -> None:
    _with_segments(logs, Store(place, max_bytes=1))
    log = logs.open(store=Store(place))
    log.append(b"on")
    log.close()
    assert stored(place) == [b"4", b"last", b"on"]


def test_reader_of_a_deleted_segment_gets_the_next_position(logs: Logs, place: Path) -> None:
    _with_segments(logs, Store(place))
    with commitlog.open(place, "r") as copy:
        for number in range(3):
            (place / f"{number * SEGMENT:020d}.seg.zst").unlink()
        with pytest.raises(PositionError, match="were deleted") as caught:
            values(copy)
        assert caught.value.first_position == 3 * SEGMENT


# --- whose store it is ----------------------------------------------------------------------------


def test_store_of_another_log_is_refused_and_unchanged(
    logs: Logs, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = logs.open("other", store=Store(place))
    other.append(b"theirs")
    other.close()
    before = {name: (place / name).read_bytes() for name in names(place)}
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"ours")
    log.close()
    assert "archive of another log" in caplog.text
    assert {name: (place / name).read_bytes() for name in names(place)} == before


@pytest.mark.parametrize("records", [1, 30], ids=["behind the store", "beside the store"])
def test_fork_of_the_log_is_refused_and_store_unchanged(
    logs: Logs, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, records: int
) -> None:
    log = logs.open(store=Store(place))
    position = [log.append(b"first" * 9) for _ in range(5)][3]
    log.close()
    before = {name: (place / name).read_bytes() for name in names(place)}
    restore(place, tmp_path / "fork", until=position)
    fork = logs.open("fork", store=Store(place, every=SOON))
    for _ in range(records):
        fork.append(b"other" * 9)
    fork.close()
    assert "that this log does not have" in caplog.text
    assert {name: (place / name).read_bytes() for name in names(place)} == before


def test_restored_log_continues_its_store(logs: Logs, place: Path, tmp_path: Path) -> None:
    log = logs.open(store=Store(place))
    log.append_many([b"%d" % number * 300 for number in range(200)])
    log.close()
    restore(place, tmp_path / "again")
    again = logs.open("again", store=Store(place))
    again.append(b"on")
    again.close()
    assert stored(place) == [*(b"%d" % number * 300 for number in range(200)), b"on"]


def test_prune_of_a_store_is_refused(logs: Logs, place: Path) -> None:
    log = logs.open(store=Store(place))
    log.append(b"record")
    log.close()
    with pytest.raises(NotALogError, match="an archive"):
        archive_segments(place, Store(place))


@pytest.mark.parametrize("every", [0, -1, "x", True, None], ids=repr)
def test_invalid_interval_is_refused(place: Path, every: Any) -> None:
    with pytest.raises(InvalidOptionError, match="every must"):
        Store(place, every=every)
    with pytest.raises(InvalidOptionError, match="store must be a commitlog.Store"):
        commitlog.open(place, store="place")  # type: ignore[arg-type]


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sealed_before", [0, 2])
@every(4)
def test_kill_at_any_step_loses_nothing_that_was_stored(
    tmp_path: Path, sealed_before: int, every: int
) -> None:
    """After each kill the store restores a prefix of the log that holds all that was there before,
    and the next handle continues.
    """
    kills = 0
    for step in itertools.count(1 + sealed_before % every, every):
        here, place = tmp_path / f"log{step}", tmp_path / f"store{step}"
        killed = killed_at(step, partial(_storing, here, place, sealed_before))
        kills += killed
        if place.exists() and "log.json" in names(place) and len(names(place)) > 1:
            kept = stored(place)
            assert verify(place).sound
            with commitlog.open(here, "r") as log:
                assert values(log)[: len(kept)] == kept
        with commitlog.open(here, store=Store(place)) as log:
            log.append(b"after")
            everything = values(log)
        assert stored(place) == everything
        assert not read_contents(target_of(place), SEGMENT).covered
        shutil.rmtree(here)
        shutil.rmtree(place)
        if not killed:
            break
    assert kills * every >= 10


def _storing(here: Path, place: Path, sealed_before: int) -> Callable[[], object]:
    """Open a log; return what stores it step by step: segments that were sealed before, parts, a
    merge, and a segment.
    """
    storing.MERGED = 3
    log = commitlog.open(here, segment_size=SEGMENT)
    for number in range(sealed_before):
        log.append(b"before %d" % number)
        seal(log)
    files = LogFiles(log.path)
    service = StoreService(view_of(log), Store(place))

    def act() -> None:
        for number in range(4):
            log.append(b"%d" % number)
            log.flush()
            service._try(files)
        seal(log)
        service._try(files)
        assert service.kept_position == (sealed_before + 1) * SEGMENT

    return act


def seal(log: CommitLog) -> None:
    log.roll()
    log.append(b"rolled")
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals


def test_end_is_stored_although_a_sealed_segment_is_damaged(
    logs: Logs, place: Path, until: Until
) -> None:
    log = logs.open()
    log.append(b"one")
    seal(log)
    log.close()
    path = Path(log.path) / f"{0:020d}.seg"
    content = bytearray(path.read_bytes())
    content[HEADER + 17] ^= 1
    path.write_bytes(content)
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: place.exists() and any(name.endswith(".tail.zst") for name in names(place)))


def test_failing_store_delays_no_append_and_is_caught_up(
    logs: Logs, place: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = threading.Event()
    target = type(target_of(place))
    put = target.put

    def refused(self: Target, name: str, *given: Any, **named: Any) -> bool:
        refusals.set()
        raise OSError(5, "no route to the store", name)

    monkeypatch.setattr(target, "put", refused)
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one")
    assert refusals.wait(60)
    log.append(b"two")
    monkeypatch.setattr(target, "put", put)
    until(lambda: is_stored(log))
    assert stored(place) == [b"one", b"two"]


def test_lost_answer_is_distinguished_from_a_conflict(
    logs: Logs, place: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object is there, but the put reports that another one was."""
    target = type(target_of(place))
    put, lost = target.put, []

    def answered(self: Target, name: str, *given: Any, **named: Any) -> bool:
        put(self, name, *given, **named)
        lost.append(name)
        return False

    monkeypatch.setattr(target, "put", answered)
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    log.roll()
    log.append(b"two")
    log.close()
    assert stored(place) == [b"one", b"two"]
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in lost} == {
        "log",
        "seg",
        "tail",
        "0000000001",
    }


def test_conflicting_part_stops_the_store(
    logs: Logs, place: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(flush="sync")
    log.append(b"one")
    end = log.flushed_position
    other = logs.open("other", flush="sync")
    other.append(b"two")
    assert other.flushed_position == end
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    content = Path(log.path, f"{0:020d}.seg").read_bytes()[:HEADER]
    content += Path(other.path, f"{0:020d}.seg").read_bytes()[HEADER:end]
    theirs = stored_tail.pack(content, 1)
    part = TailObject(0, 0, end)
    (place / part.name).write_bytes(theirs)
    log.close()
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: service_of(log).error is not None)
    assert (place / part.name).read_bytes() == theirs
    assert "does not have" in str(service_of(log).error)


def test_locked_identity_does_not_stop_the_store(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    with open(tmp_path / "orders" / "log.json", "rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)  # which any reader may do, and for good
        with commitlog.open(tmp_path / "orders", store=Store(tmp_path / "store")) as log:
            log.append(b"two lamps")
    with commitlog.open(tmp_path / "store", "r") as stored:
        assert list(stored.tailer().values()) == [b"two lamps"]


def test_stored_records_have_their_headers(logs: Logs, place: Path, until: Until) -> None:
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one", headers={"n": b"1"})
    until(lambda: is_stored(log))
    log.append(b"two", headers={"n": b"2"}, producer="till", producer_sequence=1)
    until(lambda: is_stored(log))
    with commitlog.open(place, "r") as copy:
        assert copy.tailer(start="first").read_batch(9).headers == [{"n": b"1"}, {"n": b"2"}]
