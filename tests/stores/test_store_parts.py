"""Parts of a store: what does not join is an error with its position, and is never joined over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog._kernel.segments import SEAL_AT, SEAL_SIZE
from commitlog.errors import CorruptSegmentError, IOFailureError, LogExistsError, PositionError
from commitlog.keep import restore
from commitlog.log.parts import parts_of
from commitlog.repair.log_files import LogFiles
from commitlog.repair.verification import verify
from commitlog.replication import promote
from commitlog.stores import stored_tail
from commitlog.stores.contents import read_contents
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.stored_segments import StoredSegments, whole_frames_end
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import Storing
from commitlog.stores.tail_object import TailObject, pack, read_part
from commitlog.stores.target import LocalTarget, Write, target_of
from tests.copies import copy_log
from tests.host import start_code
from tests.setups import HEADER, SEGMENT, Logs, values
from tests.stores.test_store import SOON, is_stored, names, service_of, store_end, stored

pytest.importorskip("zstandard")
Until = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def store_parts(logs: Logs, place: Path, until: Until, count: int = 10) -> CommitLog:
    """Open a log, and store each record in a part of its own."""
    log = logs.open(store=Store(place, every=SOON))
    for number in range(count):
        log.append(b"%d" % number * 20)
        until(lambda: is_stored(log))
    return log


def parts(place: Path) -> list[TailObject]:
    found = [TailObject.named(name, SEGMENT) for name in names(place)]
    return sorted((each for each in found if each), key=lambda each: (each.first, each.session))


def as_of_an_earlier_release(place: Path) -> None:
    """Rename the parts as earlier releases named them, and remove the sessions."""
    for part in parts(place):
        (place / part.name).rename(place / TailObject(part.epoch, part.first, part.end).name)
    for path in place.glob("*.epoch"):
        path.unlink()


# --- missing parts --------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 3, 8, -1, -4, -9])
def test_missing_part_is_an_error_with_its_position(
    logs: Logs, place: Path, tmp_path: Path, until: Until, missing: int
) -> None:
    """A negative number is that of a part of an earlier release, counted from 1."""
    missing, earlier = (missing, False) if missing >= 0 else (-missing - 1, True)
    log = store_parts(logs, place, until)
    log.close()
    positions = [record.position for record in log_records(log)]
    gone = parts(place)[missing]
    (place / gone.name).unlink()
    if earlier:
        as_of_an_earlier_release(place)
    with pytest.raises(CorruptSegmentError, match="lacks the parts of a segment") as caught:
        commitlog.open(place, "r")
    assert caught.value.position == gone.first
    with pytest.raises(CorruptSegmentError, match="lacks the parts of a segment"):
        restore(place, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    report = verify(place)
    assert not report.sound
    pieces = StoredSegments(target_of(place), parts_of_store(log)).pieces(0)
    with pytest.raises(CorruptSegmentError):  # as Spark reads it
        list(pieces)
    if missing:
        restore(place, tmp_path / "again", until=gone.first)
        with commitlog.open(tmp_path / "again", "r") as again:
            assert [record.position for record in again.tailer()] == positions[:missing]


def log_records(log: CommitLog) -> list[commitlog.Record]:
    with commitlog.open(log.path, "r") as closed:
        return list(closed.tailer())


def parts_of_store(log: CommitLog) -> object:
    with commitlog.open(log.path, "r") as closed:
        return parts_of(closed).directory.identity


@pytest.mark.parametrize("damaged", [1, 2, 10])
def test_log_that_has_the_damaged_end_stores_it_again(
    logs: Logs, place: Path, until: Until, damaged: int
) -> None:
    store_parts(logs, place, until).close()
    for part in parts(place)[-damaged:]:
        (place / part.name).write_bytes(b"")
    with pytest.raises(CorruptSegmentError, match="is empty"):
        stored(place)
    log = logs.open(store=Store(place))
    log.append(b"on")
    log.close()
    assert stored(place) == [*(b"%d" % number * 20 for number in range(10)), b"on"]
    assert verify(place).sound


@pytest.mark.parametrize("missing", [0, 4, 9])
def test_log_that_has_the_missing_records_stores_them_again(
    logs: Logs, place: Path, until: Until, missing: int
) -> None:
    store_parts(logs, place, until).close()
    (place / parts(place)[missing].name).unlink()
    log = logs.open(store=Store(place))
    log.append(b"on")
    log.close()
    assert stored(place) == [*(b"%d" % number * 20 for number in range(10)), b"on"]
    assert verify(place).sound


def test_restored_log_never_joins_over_missing_parts(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    store_parts(logs, place, until).close()
    gone = parts(place)[4]
    (place / gone.name).unlink()
    restore(place, tmp_path / "again", until=gone.first)
    again = logs.open("again", store=Store(place, every=SOON))
    again.append(b"new" * 10)
    until(lambda: service_of(again).error is not None)
    assert isinstance(service_of(again).error, LogExistsError)
    again.close()
    promote(again.path, store=Store(place), force="store")
    again = logs.open("again", store=Store(place))
    again.append(b"on")
    again.close()
    expected = [*(b"%d" % number * 20 for number in range(4)), b"new" * 10, b"on"]
    assert stored(place) == expected
    assert verify(place).sound


def test_part_of_another_history_does_not_join(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = store_parts(logs, place, until, 2)
    copy_log(log.path, tmp_path / "other")
    log.append(b"ours" * 5)
    until(lambda: is_stored(log))
    log.append(b"ours again")
    until(lambda: is_stored(log))
    log.close()
    last = parts(place)[-1]
    other = logs.open("other", flush="sync")
    other.append(b"their" * 4)
    other.append(b"other bytes")
    path = Path(other.path) / f"{0:020d}.seg"
    (place / last.name).write_bytes(pack(path.read_bytes()[last.first : last.end], 1))
    with pytest.raises(CorruptSegmentError, match="does not have the bytes that its name says"):
        stored(place)
    digests = last.digests
    assert digests is not None
    unfit = TailObject(0, last.first, last.end, last.session, (digests[0] ^ 1, digests[1]))
    (place / last.name).rename(place / unfit.name)
    with pytest.raises(CorruptSegmentError, match="lacks the parts") as caught:
        stored(place)
    assert caught.value.position == last.first


# --- stores of earlier releases -------------------------------------------------------------------


def test_store_of_an_earlier_release_is_read_and_continued(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = store_parts(logs, place, until)
    log.close()
    as_of_an_earlier_release(place)
    (Path(log.path) / "sessions").unlink()
    assert len(stored(place)) == 10
    assert verify(place).sound
    restore(place, tmp_path / "again")
    for name in ("log", "again"):
        copy_log(place, tmp_path / f"store of {name}")
        log = logs.open(name, store=Store(tmp_path / f"store of {name}"))
        log.append(b"on")
        log.close()
        assert stored(tmp_path / f"store of {name}")[-2:] == [b"9" * 20, b"on"]
        assert verify(tmp_path / f"store of {name}").sound


def test_earlier_release_sees_no_part_and_no_epoch(logs: Logs, place: Path, until: Until) -> None:
    """It refuses the store: what it reads of an epoch has three keys, and it ignores the parts."""
    import json
    import re

    store_parts(logs, place, until).close()
    earlier = re.compile(r"^([0-9]{10})-([0-9]{20})-([0-9]{20})\.tail\.zst$")
    assert not any(earlier.match(name) for name in names(place))
    content = json.loads((place / "0000000001.epoch").read_bytes())
    assert content.keys() != {"number", "start", "id"}


def torn_store(logs: Logs, place: Path, until: Until) -> CommitLog:
    """Store a log as an earlier release did: its last part ends inside a record."""
    log = store_parts(logs, place, until)
    log.close()
    last = parts(place)[-1]
    identity = parts_of_store(log)
    content = read_part(target_of(place), last, identity)  # type: ignore[arg-type]
    (place / last.name).unlink()
    as_of_an_earlier_release(place)
    torn = TailObject(0, last.first, last.end - 16)
    (place / torn.name).write_bytes(pack(content[:-16], 1))
    return log


def test_torn_part_of_an_earlier_release_is_replaced(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    torn_store(logs, place, until)
    assert not verify(place).sound
    done = restore(place, tmp_path / "again")
    assert done.end_position < parts(place)[-1].end
    copy_log(place, tmp_path / "second")
    log = logs.open("again", store=Store(place))
    assert log.tail_position == done.end_position
    log.append(b"goes on")
    log.close()
    assert stored(place) == [*(b"%d" % number * 20 for number in range(9)), b"goes on"]
    assert verify(place).sound
    log = logs.open("log", store=Store(tmp_path / "second"))  # which has the whole record
    log.append(b"goes on")
    log.close()
    assert stored(tmp_path / "second")[-2:] == [b"9" * 20, b"goes on"]


def test_log_with_a_torn_store_is_promoted_without_force(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    torn_store(logs, place, until)
    restore(place, tmp_path / "again")
    assert promote(tmp_path / "again", store=Store(place)).number == 1


def test_whole_frames_end_is_where_the_last_record_ends(logs: Logs) -> None:
    log = logs.open(flush="sync")
    positions = [log.append(b"%d" % number * number) for number in range(40)]
    ends = [*positions[1:], log.tail_position]
    content = (Path(log.path) / f"{0:020d}.seg").read_bytes()
    for step in (1, 7, 4096, SEGMENT):
        for stop in range(HEADER, ends[-1] + 1, 8):
            pieces = [content[at : min(at + step, stop)] for at in range(0, stop, max(step, 512))]
            if step < 512:
                pieces = [content[:stop]]
            found = whole_frames_end(pieces, 0)
            assert found == max([HEADER, *(end for end in ends if end <= stop)])


# --- what a part holds ----------------------------------------------------------------------------


def test_backlog_is_stored_in_parts_that_end_with_a_record(
    logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tail, "PART_MOST", 5000)
    log = logs.open(flush="sync")
    for number in range(100):
        log.append(b"%d" % number * (number * 3))
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    tail = StoredTail(target_of(place), LogFiles(log.path), 1)
    store_end(tail, Storing(SEGMENT), log.flushed_position)
    ends = {*(record.position for record in log.tailer()), log.tail_position}
    assert len(parts(place)) > 5
    assert {each.end for each in parts(place)} <= ends
    everything = values(log)
    while parts(place):
        assert stored(place) == everything[: len(stored(place))]
        assert verify(place).sound
        (place / parts(place)[-1].name).unlink()


class Shortening(LocalTarget):
    """A store that keeps only the first half of a large object, and says that it has it."""

    def put(self, name: str, write: Write, *, replace: bool = True) -> bool:
        placed = super().put(name, write, replace=replace)
        part = TailObject.named(name, SEGMENT)
        if placed and part is not None and part.end - part.first > 5000:
            os.truncate(self.path_of(name), os.path.getsize(self.path_of(name)) // 2)
        return placed


def test_short_merge_deletes_no_part(logs: Logs, place: Path) -> None:
    log = logs.open(flush="sync")
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    tail, known = StoredTail(Shortening(str(place)), LogFiles(log.path), 1), Storing(SEGMENT)
    for _ in range(15):
        log.append(bytes(400))
        store_end(tail, known, log.flushed_position)
    log.append(bytes(400))
    with pytest.raises(IOFailureError, match="bytes of a part of"):
        store_end(tail, known, log.flushed_position)
    (merged,) = [part for part in parts(place) if part.end - part.first > 5000]
    (place / merged.name).unlink()
    assert stored(place) == values(log)


def test_seal_of_another_machine_spoils_no_segment(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    """The first part of an earlier release may have the seal of records that are not stored."""
    log = store_parts(logs, place, until, 3)
    log.roll()
    log.append(b"behind")
    log.flush()
    log.close()
    page = (Path(log.path) / f"{0:020d}.seg").read_bytes()[:HEADER]
    assert page[SEAL_AT : SEAL_AT + SEAL_SIZE].strip(b"\0")
    shutil.rmtree(place)
    other = logs.open("log2", flush="sync")
    del other
    store_sealed_page(log, place, page)
    restore(place, tmp_path / "again")
    again = logs.open("again", store=Store(place, every=SOON))
    expected = [b"0" * 20, *(b"%d" % number * 300 for number in range(400))]
    again.append_many(expected[1:])
    again.close()
    assert stored(place) == expected
    assert verify(place).sound
    with commitlog.open(place, "r") as copy, copy.tailer() as tailer:
        for sequence in (0, 1, 200, 400):
            tailer.seek(sequence=sequence)
            record = tailer.read()
            assert record is not None
            assert bytes(record.value) == expected[sequence]
    assert f"{0:020d}.seg.zst" in names(place)


def store_sealed_page(log: CommitLog, place: Path, page: bytes) -> None:
    """Store the first record with a header page that has a seal, as an earlier release did."""
    first, second, *_ = (record.position for record in log_records(log))
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    content = (Path(log.path) / f"{0:020d}.seg").read_bytes()[first:second]
    (place / TailObject(0, 0, second).name).write_bytes(pack(page + content, 1))


def test_parts_have_no_seal(logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, log = StoredTail._put, logs.open(flush="sync")

    def sealed_meanwhile(self: StoredTail, part: TailObject) -> int:
        log.roll()
        log.append(b"behind")
        parts_of(log).writing().allocation.sealed_below()
        return put(self, part)

    monkeypatch.setattr(StoredTail, "_put", sealed_meanwhile)
    log.append(b"one")
    end = log.flushed_position
    place.mkdir()
    shutil.copy(Path(log.path, "log.json"), place)
    store_end(StoredTail(target_of(place), LogFiles(log.path), 1), Storing(SEGMENT), end)
    page = (Path(log.path) / f"{0:020d}.seg").read_bytes()[:HEADER]
    assert page[SEAL_AT : SEAL_AT + SEAL_SIZE].strip(b"\0")
    import zstandard

    content = zstandard.ZstdDecompressor().decompress((place / parts(place)[0].name).read_bytes())
    assert not content[SEAL_AT : SEAL_AT + SEAL_SIZE].strip(b"\0")
    assert stored(place) == [b"one"]


# --- what was deleted before it was stored --------------------------------------------------------

OUT_OF_REACH = r"""
import os, sys
import commitlog
from commitlog import Retention, Store
from commitlog.keep import prune

path, place = sys.argv[1:]
with commitlog.open(path, segment_size=65536, store=Store(place)) as log:
    log.append_many([b"%06d" % number * 20 for number in range(700)])
with commitlog.open(path) as log:
    log.append_many([b"%06d" % number * 20 for number in range(700, 3000)])
prune(path, Retention(max_bytes=0), force="store")
"""


def deleted_before_stored(path: Path, place: Path) -> None:
    subprocess.run([sys.executable, "-c", OUT_OF_REACH, path, place], check=True)


def numbers(found: list[bytes]) -> list[int]:
    return [int(each[:6]) for each in found]


def test_store_goes_on_behind_what_was_deleted(
    logs: Logs, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deleted_before_stored(tmp_path / "log", place)
    for run in range(3):
        log = logs.open(store=Store(place))
        log.append(b"%06d" % (3000 + run) * 20)
        log.close()
        with commitlog.open(log.path, "r") as here, commitlog.open(place, "r") as copy:
            found = numbers(values(copy))
            assert found == numbers(values(here)) == list(range(found[0], 3001 + run))
            assert copy.count() == len(found)
            assert (copy.first_sequence, copy.last_sequence) == (found[0], found[-1])
    assert caplog.text.count("were deleted from the log before they were stored") == 1
    report = verify(place)
    assert report.sound
    assert "before they were stored" in report.notes[0]
    done = restore(place, tmp_path / "again")
    with commitlog.open(tmp_path / "again", "r") as again:
        assert numbers(values(again)) == found
    gap = next(name for name in names(place) if name.endswith(".gap"))
    before = restore(place, tmp_path / "before", until=int(gap[:20]))
    assert before.end_position < done.first_position
    with commitlog.open(tmp_path / "before", "r") as again:
        assert numbers(values(again)) == list(range(700))
    with pytest.raises(PositionError):
        restore(place, tmp_path / "in", until=int(gap[:20]) + 64)


def test_retention_of_a_store_deletes_what_is_before_a_gap(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    deleted_before_stored(tmp_path / "log", place)
    log = logs.open(store=Store(place, max_bytes=1))
    log.append_many([b"%06d" % number * 20 for number in range(3000, 4000)])
    log.close()
    assert not [name for name in names(place) if name.endswith(".gap")]
    assert [each for each in read_contents(target_of(place), SEGMENT).numbers if each < 3] == []
    assert numbers(stored(place))[-1] == 3999
    assert verify(place).sound


def test_whole_segment_is_missing_without_a_recorded_gap(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    log = logs.open(store=Store(place))
    log.append_many([b"%06d" % number * 20 for number in range(3000)])
    log.close()
    (place / f"{SEGMENT:020d}.seg.zst").unlink()
    assert not verify(place).sound
    with pytest.raises(CorruptSegmentError, match="are missing in the store"):
        restore(place, tmp_path / "again")


@pytest.mark.parametrize(
    ("start", "stop"),
    [(HEADER, SEGMENT), (0, 2 * SEGMENT), (5000, 5000), (2 * SEGMENT, SEGMENT), (0, SEGMENT + 8)],
)
def test_gap_that_no_log_can_have_hides_nothing(
    logs: Logs, place: Path, start: int, stop: int
) -> None:
    log = logs.open(store=Store(place))
    for number in range(3):
        log.append(b"%d" % number)
        log.roll()
    log.close()
    StoreGap(start, stop).put(target_of(place))
    assert stored(place) == [b"0", b"1", b"2"]


def test_kill_behind_the_gap_lets_the_store_go_on(tmp_path: Path) -> None:
    program = r"""
import os, signal, sys
import commitlog
from commitlog.base import failpoint

failpoint.hook = lambda name: name == sys.argv[3] and os.kill(os.getpid(), signal.SIGKILL)
commitlog.open(sys.argv[1], store=commitlog.Store(sys.argv[2])).close()
"""
    for step in ("gap recorded", "session noted", "session claimed", "segment stored"):
        here, place = tmp_path / f"log {step}", tmp_path / f"store {step}"
        deleted_before_stored(here, place)
        assert start_code(program, here, place, step).wait(60) == -signal.SIGKILL
        with commitlog.open(here, store=Store(place)) as log:
            log.append(b"%06d" % 3000 * 20)
            everything = values(log)
        assert stored(place) == everything
        assert verify(place).sound
