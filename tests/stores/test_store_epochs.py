"""Epochs of a store: a claimed epoch fences every earlier writer, and what it stores too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.base import failpoint
from commitlog.errors import (
    FencedError,
    LogExistsError,
    ReplicationError,
)
from commitlog.keep import restore
from commitlog.repair.log_files import LogFiles
from commitlog.repair.verification import verify
from commitlog.replication import promote
from commitlog.stores.archiver import Archiver
from commitlog.stores.contents import read_contents
from commitlog.stores.store_session import StoreSession, begin_epoch, newest_session
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import Storing
from commitlog.stores.target import target_of
from tests.copies import copy_log
from tests.setups import SEGMENT, Logs, values
from tests.steps import killed_at
from tests.stores.test_store import SOON, is_stored, service_of, store_end, stored

pytest.importorskip("zstandard")
Until = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def primary(logs: Logs, place: Path, until: Until) -> CommitLog:
    log = logs.open(store=Store(place, every=SOON))
    log.append_many([b"%d" % number * 300 for number in range(200)])
    until(lambda: is_stored(log))
    return log


def seal_first(log: CommitLog) -> None:
    log.roll()
    log.append(b"behind")
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals


def is_fenced(log: CommitLog) -> bool:
    try:
        log.append(b"late", sync=True)
    except FencedError:
        return True
    return False


def test_open_primary_that_meets_a_later_epoch_fails(
    primary: CommitLog, logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    restore(place, tmp_path / "copy")
    epoch = promote(tmp_path / "copy", store=Store(place))
    assert epoch.number == newest_session(target_of(place)).epoch == 1
    until(lambda: is_fenced(primary))
    until(lambda: service_of(primary).error is not None)
    assert isinstance(service_of(primary).error, FencedError)
    with pytest.raises(FencedError):
        primary.close()
    copy = logs.open("copy", store=Store(place, every=SOON))
    copy.append(b"on")
    copy.close()
    assert stored(place) == stored(Path(copy.path))
    assert verify(place).sound


def test_epoch_that_is_claimed_while_a_log_opens_fails_it(
    logs: Logs, place: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for the newest session and the claim of the next one."""
    log = logs.open(store=Store(place))
    log.append(b"one")
    log.close()
    assert promote(log.path, store=Store(place)).number == 1

    def claim(step: str) -> None:
        if step == "session noted":
            promotion = replace(StoreSession.of(2, 0), promotion=True)
            begin_epoch(target_of(place), promotion)

    monkeypatch.setattr(failpoint, "hook", claim)
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: is_fenced(log))
    with pytest.raises(FencedError):
        log.close()


def test_restored_log_is_fenced_until_it_is_promoted(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = logs.open(store=Store(place))
    log.append(b"one")
    log.close()
    promote(log.path, store=Store(place))
    restore(place, tmp_path / "again")
    again = logs.open("again", store=Store(place, every=SOON))
    until(lambda: is_fenced(again))
    with pytest.raises(FencedError):
        again.close()
    assert promote(again.path, store=Store(place), force="store").number == 2
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: is_fenced(log))
    with pytest.raises(FencedError):
        log.close()


def test_late_puts_of_a_fenced_writer_reach_no_reader(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    old = logs.open(store=Store(place))
    old.append_many([b"%d" % number * 300 for number in range(20)])
    old.close()
    restore(place, tmp_path / "copy")
    epoch = promote(tmp_path / "copy", store=Store(place))
    with commitlog.open(old.path) as zombie:
        zombie.append_many([b"late" * 300 for number in range(2 * SEGMENT // 1200)])
        seal_first(zombie)
        files = LogFiles(zombie.path)
        part = StoredTail(target_of(place), files, 1)
        store_end(part, Storing(SEGMENT, stored=epoch.start - 100), epoch.start + 200)
        assert stored(place) == stored(tmp_path / "copy")
        Archiver(files, Store(place)).put(0, replace=False)
    with commitlog.open(tmp_path / "copy", store=Store(place)) as copy:
        copy.append_many([b"%d" % number * 300 for number in range(200)])
        expected = values(copy)
    assert stored(place) == expected
    assert verify(place).sound
    assert not read_contents(target_of(place), SEGMENT).covered


def test_late_deletion_by_a_fenced_writer_leaves_no_gap(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    old = logs.open(store=Store(place))
    old.append(b"one")
    old.close()
    restore(place, tmp_path / "copy")
    promote(tmp_path / "copy", store=Store(place))
    copy = logs.open("copy", store=Store(place, every=SOON))
    copy.append(b"two")
    until(lambda: is_stored(copy))
    for path in place.glob("0000000000-*.tail.zst"):
        path.unlink()
    assert stored(place) == [b"one", b"two"]


def test_put_that_comes_after_the_claim_is_replaced(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    old = logs.open(store=Store(place))
    old.append(b"one")
    old.close()
    restore(place, tmp_path / "copy")
    promote(tmp_path / "copy", store=Store(place))
    copy = logs.open("copy", store=Store(place, every=SOON))
    copy.append(b"two")
    until(lambda: is_stored(copy))
    with commitlog.open(old.path) as zombie:
        zombie.append(b"late")
        seal_first(zombie)
        Archiver(LogFiles(zombie.path), Store(place)).put(0, replace=False)
    copy.roll()
    copy.append(b"three")
    copy.close()
    assert stored(place) == [b"one", b"two", b"three"]


def test_log_behind_its_store_is_promoted_only_by_force(
    primary: CommitLog, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    middle = [record.position for record in primary.tailer()][100]
    primary.close()
    restore(place, tmp_path / "copy", until=middle)
    with pytest.raises(ReplicationError, match="the store has records up to position"):
        promote(tmp_path / "copy", store=Store(place))
    assert newest_session(target_of(place)).epoch == 0
    with pytest.raises(ReplicationError, match="with force store, and lose"):
        promote(tmp_path / "copy", store=Store(place), force=("promises", "copies"))
    absent = [f"tcp://127.0.0.1:1/copy{number}" for number in (1, 2)]
    with pytest.raises(ReplicationError, match="with force promises, store, and lose"):
        promote(tmp_path / "copy", others=absent, store=Store(place), force="store")
    promote(tmp_path / "copy", others=absent, store=Store(place), force=("promises", "store"))
    waived = [text for text in caplog.messages if "promoted by force" in text]
    assert len(waived) == 1
    assert "1 of 2 copies that are needed" in waived[0]
    assert "the store has records up to" in waived[0]
    with commitlog.open(tmp_path / "copy", store=Store(place)) as copy:
        copy.append(b"on")
        expected = values(copy)
    assert stored(place) == expected


def test_number_of_a_promotion_without_the_store_may_be_claimed(
    primary: CommitLog, logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    primary.close()
    restore(place, tmp_path / "copy")
    numbers = {promote(primary.path).number, promote(tmp_path / "copy", store=Store(place)).number}
    assert numbers == {1}
    log = logs.open(store=Store(place, every=SOON))
    until(lambda: is_fenced(log))
    with pytest.raises(FencedError):
        log.close()
    assert promote(log.path, store=Store(place)).number == 2
    log = logs.open(store=Store(place, every=SOON))
    log.append(b"on")
    log.close()
    assert stored(place) == stored(Path(log.path))


def test_what_a_promotion_without_the_store_gives_up_is_logged(
    logs: Logs, place: Path, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(store=Store(place))
    log.append(b"one")
    common = log.tail_position
    log.close()
    copy_log(log.path, tmp_path / "backup")
    log = logs.open(store=Store(place))
    log.append(b"two")
    end = log.tail_position
    log.close()
    promote(tmp_path / "backup")
    backup = logs.open("backup", store=Store(place, every=SOON))
    until(lambda: "is given up" in caplog.text)
    assert f"goes on there at position {common}" in caplog.text
    assert f"from there to position {end} is given up" in caplog.text
    backup.append(b"on")
    backup.close()
    assert stored(place) == [b"one", b"on"]


def test_promotion_with_the_store_of_another_log_is_refused(
    primary: CommitLog, place: Path, logs: Logs
) -> None:
    primary.close()
    path = logs.open("other").path
    logs.close()
    folders = place, Path(path)
    before = [{each: each.read_bytes() for each in folder.iterdir()} for folder in folders]
    with pytest.raises(LogExistsError, match="the archive of another log: choose another one"):
        promote(path, store=Store(place))
    after = [{each: each.read_bytes() for each in folder.iterdir()} for folder in folders]
    assert after[0] == before[0]
    assert not Path(path, "epoch").exists()
    assert {each.name for each in after[1]} == {each.name for each in before[1]}


def test_kill_at_any_step_of_a_promotion_leaves_one_primary(
    logs: Logs, place: Path, tmp_path: Path, until: Until
) -> None:
    log = logs.open(store=Store(place))
    log.append_many([b"one", b"two"])
    log.close()
    step, killed = 0, True
    while killed:
        step += 1
        here, kept = tmp_path / f"copy{step}", tmp_path / f"store{step}"
        copy_log(place, kept)
        restore(kept, here)
        killed = killed_at(step, partial(partial, promote, here, store=Store(kept)))
        promoted = promote(here, store=Store(kept))
        assert promoted.number == newest_session(target_of(kept)).epoch
        with commitlog.open(here, store=Store(kept)) as copy:
            copy.append(b"on")
        assert stored(kept) == [b"one", b"two", b"on"]
    assert step > 3
