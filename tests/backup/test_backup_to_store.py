"""Backups to a store: what is stored, increments, and stores that logs keep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.errors import CommitLogError, FencedError, InvalidOptionError, LogExistsError
from commitlog.extension import LogFiles
from commitlog.keep import backup, restore, verify
from commitlog.replication import serve
from tests.copies import copy_log
from tests.setups import Logs, values

pytest.importorskip("zstandard")


@pytest.fixture
def log(logs: Logs) -> CommitLog:
    log = logs.open()
    fill(log, 0, 300)
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals whole segments, which a thread does later
    return log


def fill(log: CommitLog, first: int, stop: int) -> None:
    for number in range(first, stop):
        log.append(b"%d" % number * 200)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def values_at(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return values(log)


def test_store_has_the_log_up_to_its_end(log: CommitLog, place: Path, tmp_path: Path) -> None:
    done = log.backup(Store(place))
    assert (done.path, done.end_position, done.segments) == (str(place), log.tail_position, 3)
    assert done.verified
    assert values_at(place) == values(log)
    assert verify(place).sound
    assert not {"stored", "sessions"} & {*os.listdir(log.path)}  # nothing is noted in the log
    restore(place, tmp_path / "again")
    assert values_at(tmp_path / "again") == values(log)


def test_increment_stores_what_is_lacking(log: CommitLog, place: Path) -> None:
    log.backup(Store(place))
    whole = sorted(place.glob("*.seg.zst"))
    times = [path.stat().st_mtime_ns for path in whole]
    fill(log, 300, 500)
    done = log.backup(Store(place), incremental=True)
    assert done.written_segments < done.segments
    assert [path.stat().st_mtime_ns for path in whole] == times
    assert values_at(place) == values(log)
    assert verify(place).sound


def test_full_backup_needs_an_empty_store(log: CommitLog, place: Path) -> None:
    log.backup(Store(place))
    with pytest.raises(LogExistsError, match="incremental"):
        log.backup(Store(place))


def test_address_of_a_directory_is_a_store(log: CommitLog, place: Path) -> None:
    log.flush()
    backup(log.path, f"file://{place}")
    assert values_at(place) == values(log)
    assert (place / "log.json").exists()
    assert list(place.glob("*.seg.zst"))


def test_store_that_a_log_keeps_is_left_to_it(logs: Logs, place: Path) -> None:
    log = logs.open(store=Store(place, every=0.01))
    fill(log, 0, 10)
    log.close()
    with (
        commitlog.open(log.path) as again,
        pytest.raises(FencedError, match="opened with store="),
    ):
        again.backup(Store(place), incremental=True)
    with commitlog.open(log.path, store=Store(place)) as again:
        again.append(b"on")
    assert values_at(place)[-1] == b"on"


def test_store_of_backups_is_left_to_them(log: CommitLog, place: Path) -> None:
    log.backup(Store(place))
    log.close()
    with commitlog.open(log.path, store=Store(place, every=0.01)) as again:
        again.append(b"on")
    assert b"on" not in values_at(place)
    with commitlog.open(log.path) as again:
        again.backup(Store(place), incremental=True)
    assert b"on" in values_at(place)


def test_log_with_a_store_is_backed_up_elsewhere(logs: Logs, place: Path, tmp_path: Path) -> None:
    log = logs.open(store=Store(tmp_path / "own", every=0.01))
    fill(log, 0, 10)
    log.backup(Store(place))
    fill(log, 10, 20)
    log.backup(Store(place), incremental=True)
    assert values_at(place) == values(log)
    log.close()
    assert values_at(tmp_path / "own") == values_at(place)
    with LogFiles(log.path) as files:
        stored = files.stored()
        assert stored is not None
        assert stored.target == str(tmp_path / "own")


def test_log_of_another_history_is_refused(log: CommitLog, place: Path, tmp_path: Path) -> None:
    log.flush()
    log.close()
    copy_log(log.path, tmp_path / "fork")
    with commitlog.open(log.path) as again:
        again.append(b"here")
        again.backup(Store(place))
    with commitlog.open(tmp_path / "fork") as fork:
        fork.append(b"there")
        fork.append(b"there, too")
        with pytest.raises(LogExistsError, match="does not have"):
            fork.backup(Store(place), incremental=True)
    assert values_at(place)[-1] == b"here"


def test_restored_log_goes_on_in_the_store(log: CommitLog, place: Path, tmp_path: Path) -> None:
    log.backup(Store(place))
    restore(place, tmp_path / "again")
    with commitlog.open(tmp_path / "again") as again:
        again.append(b"on")
        again.backup(Store(place), incremental=True)
    assert values_at(place)[-1] == b"on"


def test_another_log_is_refused(logs: Logs, log: CommitLog, place: Path) -> None:
    log.backup(Store(place))
    other = logs.open("other")
    other.append(b"other")
    with pytest.raises(LogExistsError, match="another log"):
        other.backup(Store(place), incremental=True)


def test_damaged_log_is_refused(log: CommitLog, place: Path) -> None:
    log.flush()
    with open(os.path.join(log.path, f"{0:020d}.seg"), "r+b") as file:
        file.seek(9000)
        file.write(b"!")
    with pytest.raises(CommitLogError, match="damaged"):
        log.backup(Store(place))


def test_log_on_another_machine_is_refused(log: CommitLog, place: Path) -> None:
    log.flush()
    with serve(log.path) as server, pytest.raises(InvalidOptionError, match="to a directory first"):
        backup(server.url(), Store(place))
    with pytest.raises(InvalidOptionError, match="upload"):
        log.backup(f"file://{place}.tar.zst")


def test_progress_rises_to_its_total(log: CommitLog, place: Path) -> None:
    seen: list[tuple[int, int]] = []
    log.backup(Store(place), progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > log.tail_position


def test_empty_log_is_stored_without_a_segment(logs: Logs, place: Path) -> None:
    log = logs.open()
    done = backup(log, Store(place))
    assert (done.segments, done.written_bytes) == (0, 0)
    log.append(b"first")
    assert log.backup(Store(place), incremental=True).segments == 1
