"""Sessions of a store: of several directories of one log, one stores, and a restore is a prefix."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog.errors import (
    CorruptSegmentError,
    FencedError,
    LogExistsError,
    ReplicationError,
)
from commitlog.extension import view_of
from commitlog.keep import archive_segments, restore
from commitlog.repair.log_files import LogFiles
from commitlog.repair.verification import verify
from commitlog.replication import promote
from commitlog.stores import own_sessions, store_session
from commitlog.stores.archiver import Archiver
from commitlog.stores.contents import read_contents
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_session import (
    StoreSession,
    begin_epoch,
    newest_session,
    promotions,
    read_session,
    retire,
    sessions_in,
)
from commitlog.stores.storing import Standing
from commitlog.stores.target import target_of
from tests.copies import copy_log
from tests.length import every
from tests.setups import SEGMENT, Logs, values
from tests.steps import killed_at
from tests.stores.test_store import SOON, is_stored, names, seal, service_of, stored
from tests.stores.test_store_epochs import is_fenced

pytest.importorskip("zstandard")
Until = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def store_some(logs: Logs, place: Path, name: str = "log", count: int = 50) -> list[bytes]:
    """Open a log, store some records, and close it; return all of its records."""
    log = logs.open(name, store=Store(place))
    log.append_many([b"%s %d" % (name.encode(), number) * 20 for number in range(count)])
    log.close()
    with commitlog.open(log.path, "r") as closed:
        return values(closed)


def sessions(place: Path) -> list[StoreSession]:
    target = target_of(place)
    found = [read_session(target, number) for number in sorted(sessions_in(target.names()))]
    return [each for each in found if each is not None]


def copy_live(log: CommitLog, path: Path) -> None:
    """Copy the directory of a log that is open, without files that are being written."""
    copy_log(log.path, path)


def is_refused(log: CommitLog) -> bool:
    return isinstance(service_of(log).error, FencedError)


# --- copies, clones, backups ----------------------------------------------------------------------


def test_second_opened_copy_of_a_log_stores_nothing(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    common = store_some(logs, place)
    copy_log(tmp_path / "log", tmp_path / "copy")
    first = logs.open(store=Store(place, every=SOON))
    until(lambda: service_of(first).stored() is not None)
    second = logs.open("copy", store=Store(place, every=SOON))
    for number in range(5):
        first.append(b"first %d" % number * number)
        second.append(b"second %d" % number * (number + 3))
    until(lambda: is_stored(first))
    until(lambda: is_refused(second))
    assert "did not begin session 2 of the store" in str(service_of(second).error)
    assert stored(place) == [*common, *(b"first %d" % number * number for number in range(5))]
    assert verify(place).sound


def test_copy_of_an_open_log_that_is_opened_fences_the_log(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    copy_live(log, tmp_path / "copy")
    copy = logs.open("copy", store=Store(place, every=SOON))
    copy.append(b"of the copy")
    until(lambda: is_stored(copy))
    until(lambda: is_fenced(log))
    until(lambda: is_refused(log))
    assert stored(place) == [b"one", b"of the copy"]
    with pytest.raises(FencedError):
        log.close()


def test_backup_that_is_restored_in_place_stores_nothing(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    store_some(logs, place)
    copy_log(tmp_path / "log", tmp_path / "backup")
    everything = store_some(logs, place)
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "backup", tmp_path / "log")
    log = logs.open(store=Store(place, every=SOON))
    log.append_many([b"other"] * 100)
    until(lambda: is_refused(log))
    assert "restored from a backup" in str(service_of(log).error)
    log.close()
    assert stored(place) == everything


def test_backup_of_the_running_session_is_refused_as_a_fork(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    copy_live(log, tmp_path / "backup")
    log.append_many([b"%d" % number * 300 for number in range(600)])
    log.close()
    before = {name: (place / name).read_bytes() for name in names(place)}
    backup = logs.open("backup", store=Store(place, every=SOON))
    until(lambda: service_of(backup).error is not None)
    assert isinstance(service_of(backup).error, LogExistsError)
    backup.close()
    assert {name: (place / name).read_bytes() for name in names(place)} == before


def test_backup_that_passed_its_store_deletes_nothing_there(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"one")
    until(lambda: is_stored(log))
    copy_live(log, tmp_path / "backup")
    for number in range(3):
        log.append(b"%d" % number)
        log.roll()
    log.close()
    before = {name: (place / name).read_bytes() for name in names(place)}
    with commitlog.open(tmp_path / "backup") as backup:  # the store was out of reach
        for number in range(5):
            backup.append(b"other %d" % number)
            backup.roll()
    backup = logs.open("backup", store=Store(place, every=SOON))
    until(lambda: service_of(backup).error is not None)
    assert isinstance(service_of(backup).error, LogExistsError)
    assert {name: (place / name).read_bytes() for name in names(place)} == before


def test_restored_log_goes_on_and_fences_the_old_one(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    old = logs.open(store=Store(place, every=SOON))
    old.append(b"one")
    until(lambda: is_stored(old))
    restore(place, tmp_path / "again")
    again = logs.open("again", store=Store(place, every=SOON))
    again.append(b"two")
    until(lambda: is_stored(again))
    until(lambda: is_fenced(old))
    with pytest.raises(FencedError):
        old.close()
    again.close()
    assert stored(place) == [b"one", b"two"]
    # The old machine comes back.
    old = logs.open(store=Store(place, every=SOON))
    until(lambda: is_refused(old))
    old.close()
    again = logs.open("again", store=Store(place))
    again.append(b"three")
    again.close()
    assert stored(place) == [b"one", b"two", b"three"]


def test_two_restored_logs_are_not_both_stored(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    store_some(logs, place)
    for name in ("one", "two"):
        restore(place, tmp_path / name)
    everything = store_some(logs, place, "one")
    two = logs.open("two", store=Store(place, every=SOON))
    until(lambda: is_refused(two))
    two.close()
    assert stored(place) == everything
    assert promote(two.path, store=Store(place), force="store").number == 1


def test_refused_copy_is_promoted_and_goes_on(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    store_some(logs, place)
    copy_log(tmp_path / "log", tmp_path / "copy")
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: len(sessions(place)) == 2)
    epoch = promote(tmp_path / "copy", store=Store(place))
    assert [each.epoch for each in sessions(place)] == [0, 0, epoch.number]
    until(lambda: is_fenced(log))
    with pytest.raises(FencedError):
        log.close()
    everything = store_some(logs, place, "copy")
    assert stored(place) == everything


def test_copy_of_a_log_archives_nothing_into_its_store(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    log = logs.open(store=Store(place))
    log.append(b"one")
    log.close()
    copy_log(log.path, tmp_path / "copy")
    for name in ("log", "copy"):
        with commitlog.open(tmp_path / name) as each:
            each.append(name.encode())
            seal(each)
    log = logs.open(store=Store(place))
    log.close()
    everything = stored(place)
    for dry_run in (True, False):
        with pytest.raises(FencedError, match="did not begin session"):
            archive_segments(tmp_path / "copy", Store(place), keep=True, dry_run=dry_run)
    assert stored(place) == everything
    assert len(archive_segments(log.path, Store(place), keep=True).segments) == 1


def test_promotion_of_a_diverged_copy_replaces_the_rest(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    common = store_some(logs, place)
    copy_log(tmp_path / "log", tmp_path / "copy")
    theirs = store_some(logs, place, count=700)
    with commitlog.open(tmp_path / "copy") as copy:
        copy.append_many([b"%d other" % number * 30 for number in range(900)])
    with pytest.raises(ReplicationError, match="are not of this log"):
        promote(tmp_path / "copy", store=Store(place))
    assert stored(place) == theirs
    promote(tmp_path / "copy", store=Store(place), force="store")
    found = stored(place)
    assert found[: len(common)] == theirs[: len(common)]
    copy = logs.open("copy", store=Store(place))
    copy.append(b"on")
    expected = values(copy)
    copy.close()
    assert stored(place) == expected
    assert verify(place).sound


def test_same_directory_continues_after_each_restart(logs: Logs, place: Path) -> None:
    for _ in range(5):
        everything = store_some(logs, place)
    assert stored(place) == everything
    assert [each.number for each in sessions(place)] == [1, 2, 3, 4, 5]
    assert len({each.id for each in sessions(place)}) == 5


def test_directory_may_return_to_an_earlier_store(logs: Logs, place: Path, tmp_path: Path) -> None:
    for target in (place, tmp_path / "other", place, tmp_path / "other"):
        everything = store_some(logs, target)
        assert stored(target) == everything


# --- the claim ------------------------------------------------------------------------------------


def test_of_two_claims_behind_one_session_one_is_refused(place: Path) -> None:
    target = target_of(place)
    newest = newest_session(target)
    first = StoreSession.of(0, 4096).claim_behind(target, newest)
    with pytest.raises(FencedError, match="another writer has claimed session 1"):
        StoreSession.of(0, 4096).claim_behind(target, newest)
    assert newest_session(target) == first
    first.refuse_later(target)
    StoreSession.of(0, 5000).claim_behind(target, first)
    with pytest.raises(FencedError):
        first.refuse_later(target)


def test_promotions_take_an_epoch_once(place: Path) -> None:
    target = target_of(place)
    StoreSession.of(0, 4096).claim_behind(target, newest_session(target))
    promotion = StoreSession(0, 3, 4096, "a" * 32, promotion=True, epoch_start=5000)
    begin_epoch(target, promotion)
    begin_epoch(target, promotion)
    assert [(each.number, each.epoch) for each in sessions(place)] == [(1, 0), (2, 3)]
    for epoch, promotion_id in ((3, "b"), (2, "a" * 32), (0, "")):
        with pytest.raises(FencedError, match="another log has claimed epoch 3"):
            begin_epoch(target, StoreSession(0, epoch, 0, promotion_id, promotion=True))
    assert promotions(target) == [replace(promotion, number=2)]


def test_sessions_of_an_earlier_release_are_read(place: Path) -> None:
    place.mkdir()
    for number in (1, 2):
        content = b'{"number": %d, "start": 4096, "id": "a"}' % number
        (place / f"{number:010d}.epoch").write_bytes(content)
    of_epoch = StoreSession(2, 2, 4096, "a", promotion=True, epoch_start=4096)
    assert newest_session(target_of(place)) == of_epoch
    assert promotions(target_of(place)) == [of_epoch]


@pytest.mark.parametrize("harm", [b"", b"[]", b'{"number":1,"start":-1,"id":"a"}', b"{" * 5000])
def test_damaged_session_is_named(place: Path, harm: bytes) -> None:
    place.mkdir()
    (place / "0000000001.epoch").write_bytes(harm)
    with pytest.raises(CorruptSegmentError, match=r"0000000001\.epoch is damaged"):
        newest_session(target_of(place))


def test_old_sessions_are_deleted_and_their_parts_ignored(
    logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_session, "_KEPT", 3)
    for _ in range(8):
        log = logs.open(store=Store(place))
        log.append(b"record")
        seal(log)
        log.close()
    everything = stored(place)
    assert [each.number for each in sessions(place)] == [5, 6, 7, 8]
    target = target_of(place)
    retire(target, sessions(place)[-1], 1 << 62)
    assert [each.number for each in sessions(place)] == [5, 6, 7, 8]
    end = read_contents(target, SEGMENT).end(SEGMENT)
    part = next(name for name in names(place) if name.endswith(".tail.zst"))
    late = f"{part[:11]}{end:020d}-{end + 64:020d}-{2:010d}{part[63:]}"
    shutil.copy(place / part, place / late)  # of a writer that was paused since session 2
    assert read_contents(target, SEGMENT).end(SEGMENT) == end
    assert stored(place) == everything


def test_own_sessions_keep_the_last_and_the_pending_one(logs: Logs) -> None:
    notes = view_of(logs.open()).notes
    own = own_sessions.read(notes)
    assert own == OwnSessions()
    newest = StoreSession(0, 0, 0, "")
    for number in range(1, 200):
        own = own.claiming(f"store {number % 3}", newest, f"{number}")
        own_sessions.write(notes, own)
        assert own_sessions.read(notes) == own
        if number % 2:
            newest = StoreSession(number, 0, 0, f"{number}")
        assert own.has(f"{number}")
    assert len(own.stores) == 3
    for number in range(200):
        own = own.claiming(f"other {number}", newest, "x")
    assert len(own.stores) == 64


def test_claim_that_arrives_late_is_known_as_own(place: Path) -> None:
    newest, last = StoreSession(0, 0, 0, ""), OwnSessions()
    for number in range(5):  # each process is killed before it sees an answer
        last = last.claiming("store", newest, f"{number}")
    assert all(last.has(f"{number}") for number in range(5))
    continued = last.claiming("store", StoreSession(1, 0, 0, "3"), "5")
    assert [continued.has(f"{number}") for number in range(6)] == [False] * 3 + [True] * 3
    for number in range(6, 60):
        continued = continued.claiming("store", StoreSession(9, 0, 0, "of another"), f"{number}")
    assert continued.has("3")
    target, claim = target_of(place), StoreSession.of(0, 4096)
    first = claim.claim_behind(target, newest)
    assert replace(claim, start=5000).claim_behind(target, newest) == first


def test_damaged_file_of_own_sessions_is_named(
    logs: Logs, place: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    store_some(logs, place)
    (logs.path / "log" / own_sessions.NAME).write_bytes(b"{}")
    logs.open(store=Store(place, every=SOON))
    until(lambda: "`sessions` is damaged" in caplog.text)


# --- faults ---------------------------------------------------------------------------------------


def test_kill_at_any_step_of_a_claim_lets_the_log_continue(tmp_path: Path) -> None:
    step, killed = 0, True
    while killed:
        step += 1
        here, place = tmp_path / f"log{step}", tmp_path / f"store{step}"
        with commitlog.open(here, segment_size=SEGMENT, store=Store(place)) as log:
            log.append(b"one")
        killed = killed_at(step, partial(_reopening, here, place))
        with commitlog.open(here, store=Store(place)) as log:
            log.append(b"after")
            everything = values(log)
        assert stored(place) == everything
        assert verify(place).sound
    assert step > 5


def _reopening(here: Path, place: Path) -> Callable[[], object]:
    def act() -> None:
        with commitlog.open(here, store=Store(place)) as log:
            log.append(b"two")

    return act


@every(2)
def test_kill_of_a_restored_log_lets_it_continue(tmp_path: Path, every: int) -> None:
    step, killed = 0, True
    while killed:
        step += every
        here, place = tmp_path / f"log{step}", tmp_path / f"store{step}"
        with commitlog.open(
            tmp_path / f"old{step}", segment_size=SEGMENT, store=Store(place)
        ) as log:
            log.append_many([b"one"] * 30)
        restore(place, here)
        killed = killed_at(step, partial(_reopening, here, place))
        with commitlog.open(here, store=Store(place)) as log:
            log.append(b"after")
            everything = values(log)
        assert stored(place) == everything
    assert step > 5


@pytest.mark.parametrize("reopened", [False, True])
def test_late_whole_segment_of_a_copied_writer_is_replaced(
    logs: Logs, place: Path, tmp_path: Path, until: Until, reopened: bool
) -> None:
    log = logs.open(store=Store(place))
    log.append(b"one")
    log.close()
    copy_log(log.path, tmp_path / "late")
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"two")
    until(lambda: is_stored(log))
    with commitlog.open(tmp_path / "late") as late:
        late.append(b"late")
        seal(late)
        Archiver(LogFiles(late.path), Store(place)).put(0, replace=False)
    if reopened:
        log.close()
        log = logs.open(store=Store(place, every=SOON))
    log.roll()
    log.append(b"three")
    log.close()
    assert stored(place) == [b"one", b"two", b"three"]
    assert verify(place).sound


def test_segments_deleted_meanwhile_are_no_difference(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    store_some(logs, place, count=3000)
    files = LogFiles(logs.open("log").path)
    target, before = target_of(place), names(place)
    comparison = Comparison(files, target, 1 << 62)
    end = comparison.segments.recorded_end()
    deleted = range(end // SEGMENT - 1)
    assert len(deleted) > 3
    for number in deleted:  # retention is allowed to: they are stored
        files.directory.remove_segment(number)
    assert comparison.common() == end
    assert comparison.compare(Standing.CONTINUES, newest_session(target)) == end
    assert comparison.compare(Standing.PROMOTED, StoreSession(1, 0, 0, "0" * 32)) == end
    assert names(place) == before
    files.close()
