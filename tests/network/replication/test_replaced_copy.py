"""A copy whose files are replaced while it is followed acknowledges and promises nothing more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, ReplicationError, SyncTimeoutError
from commitlog.recovery.epochs import Epochs
from tests.copies import copy_log
from tests.network.replication.scene import (
    LIMIT_S,
    SEGMENT,
    copy_of,
    fill,
    moved,
    overwritten,
    records,
    replaced,
)

Restore = Callable[[Path, Path], None]
NOWHERE = "tcp://127.0.0.1:1/copy"
RESTORES = [overwritten, replaced, moved]


def opened(path: Path, rule: replication.Replication) -> commitlog.CommitLog:
    return commitlog.open(path, segment_size=SEGMENT, flush="sync", replicate=rule)


@pytest.mark.parametrize("restore", RESTORES)
def test_copy_restored_while_followed_does_not_count(restore: Restore, tmp_path: Path) -> None:
    rule, copy = replication.Replication(require=1, timeout=0.5), tmp_path / "copy"
    with opened(tmp_path / "orders", rule) as log:
        with replication.follow(rule.server.url(), copy) as follower:
            log.append(b"before", sync=True)
            copy_log(copy, tmp_path / "backup")
            log.append(b"lost with the copy's files", sync=True)
            restore(copy, tmp_path / "backup")
            with pytest.raises(SyncTimeoutError):
                log.append(b"after", sync=True)
            with pytest.raises(FencedError, match="replaced or removed"):
                follower.wait(timeout=LIMIT_S)
        with replication.follow(rule.server.url(), tmp_path / "new"):
            log.append(b"on a new copy", sync=True)


@pytest.mark.parametrize("has_backup", [True, False], ids=["older", "emptied"])
def test_copy_without_its_last_segment_does_not_count(has_backup: bool, tmp_path: Path) -> None:
    """A backup may end in an earlier segment, and `rsync --delete` removes the later ones."""
    rule, copy = replication.Replication(require=1, timeout=0.5), tmp_path / "copy"
    with (
        opened(tmp_path / "orders", rule) as log,
        replication.follow(rule.server.url(), copy) as follower,
    ):
        log.append(b"before", sync=True)
        copy_log(copy, tmp_path / "backup")
        for _ in range(20):
            log.append(bytes(7000), sync=True)
        for each in copy.iterdir():
            if each.is_file() and not (has_backup and (tmp_path / "backup" / each.name).exists()):
                each.unlink()
        if has_backup:
            replaced(copy, tmp_path / "backup")
        with pytest.raises(SyncTimeoutError):
            log.append(b"after", sync=True)
        with pytest.raises(FencedError, match="replaced or removed"):
            follower.wait(timeout=LIMIT_S)


def test_copy_goes_on_after_its_older_segments_were_deleted(tmp_path: Path) -> None:
    rule, copy = replication.Replication(require=1), tmp_path / "copy"
    with (
        opened(tmp_path / "orders", rule) as log,
        replication.follow(rule.server.url(), copy),
    ):
        for _ in range(20):
            log.append(bytes(7000), sync=True)
        numbers = sorted(copy.glob("*.seg"))
        for each in numbers[:-1]:
            each.unlink()
        log.append(b"after", sync=True)
    with replication.follow(NOWHERE, copy, listen="127.0.0.1:0", connect_timeout=0.1):
        pass


def test_removed_copy_does_not_count(tmp_path: Path) -> None:
    rule, copy = replication.Replication(require=1, timeout=0.5), tmp_path / "copy"
    with (
        opened(tmp_path / "orders", rule) as log,
        replication.follow(rule.server.url(), copy) as follower,
    ):
        log.append(b"before", sync=True)
        copy.rename(tmp_path / "away")
        with pytest.raises(SyncTimeoutError):
            log.append(b"after", sync=True)
        with pytest.raises(FencedError, match="replaced or removed"):
            follower.wait(timeout=LIMIT_S)
    assert len(records(tmp_path / "away")) == 2


@pytest.mark.parametrize("restore", RESTORES)
def test_copy_restored_while_served_promises_nothing(restore: Restore, tmp_path: Path) -> None:
    """Its promise would be in files that the next program at its path does not see."""
    copy, other = tmp_path / "copy", tmp_path / "other"
    copy_of(tmp_path / "orders", copy)
    copy_log(copy, tmp_path / "backup")
    with commitlog.open(tmp_path / "orders") as log:
        fill(log, 30, "later")
        end = log.flushed_position
    with replication.serve(tmp_path / "orders") as server:
        with replication.follow(server.url(), other) as second:
            assert second.wait(end, LIMIT_S)
        with replication.follow(server.url(), copy, listen="127.0.0.1:0") as follower:
            assert follower.server is not None
            assert follower.wait(end, LIMIT_S)
            restore(copy, tmp_path / "backup")
            with pytest.raises(ReplicationError):
                replication.promote(other, others=[follower.server.url()], timeout=1)
    found = Epochs.at(str(copy))
    assert found is not None
    assert found[1].promised.number == 0


def test_copy_goes_on_after_its_folder_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        commitlog.open("orders", segment_size=SEGMENT) as log,
        replication.serve("orders") as server,
        replication.follow(server.url(), "copy") as follower,
    ):
        monkeypatch.chdir("/")
        fill(log, 20)
        assert follower.wait(log.flushed_position, LIMIT_S)
