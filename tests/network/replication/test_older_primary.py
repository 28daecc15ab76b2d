"""A primary that has an older state of itself: its copies are not cut, and acknowledge nothing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import CommitLogError, FencedError, ReplicationError
from commitlog.network.replication.followed_mark import NAME, FollowedMark
from commitlog.network.replication.served import Served
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.notes import Notes
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
    settle,
)


def opened(path: Path) -> commitlog.CommitLog:
    rule = replication.Replication(require=1)
    return commitlog.open(path, segment_size=SEGMENT, flush="sync", replicate=rule)


def fill_one(log: commitlog.CommitLog, value: bytes) -> int:
    position = log.append(value)
    log.flush()
    return position


def url_of(log: commitlog.CommitLog) -> str:
    rule = log.options.replicate
    assert isinstance(rule, replication.Replication)
    return rule.server.url(Path(log.path).name)


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A log that was restored from a snapshot of its volume, taken while it was open."""
    primary, snapshot = tmp_path / "orders", tmp_path / "snapshot"
    with opened(primary) as log, replication.follow(url_of(log), tmp_path / "copy") as follower:
        fill(log, 10)
        copy_log(primary, snapshot, "cursors")
        settle(snapshot)
        fill(log, 30, "acknowledged")
        assert follower.wait(log.flushed_position, LIMIT_S)
    shutil.rmtree(primary)
    snapshot.rename(primary)
    return primary


def mark_of(path: Path) -> int:
    identity = identities.read_path(str(path))
    assert identity is not None
    directory = LogDirectory(str(path), identity)
    try:
        return FollowedMark(Notes(directory)).position
    finally:
        directory.close()


def test_snapshot_that_recovers_does_not_cut_its_copy(restored: Path, tmp_path: Path) -> None:
    before = records(tmp_path / "copy")
    assert len(before) == 40
    with (
        opened(restored) as log,
        pytest.raises(FencedError, match="an older state, restored") as caught,
    ):
        replication.follow(url_of(log), tmp_path / "copy")
    assert caught.value.position is not None
    assert caught.value.position < before[-1][0]
    assert records(tmp_path / "copy") == before
    assert not list((tmp_path / "copy").glob("*.fork*"))


def test_promoted_copy_cuts_its_restored_primary(restored: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    commitlog.open(restored).close()  # recovers
    replication.promote(copy)
    with opened(copy) as log, replication.follow(url_of(log), restored) as follower:
        assert follower.wait(log.append(b"one", sync=True), LIMIT_S)
    assert records(restored) == records(copy)


def test_cut_by_a_promotion_lowers_the_mark(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with opened(a) as log:
        with replication.follow(url_of(log), b) as follower:
            fill(log, 5)
            assert follower.wait(log.flushed_position, LIMIT_S)
        copy_log(b, tmp_path / "c")
        with replication.follow(url_of(log), b) as follower:
            fill(log, 5)
            assert follower.wait(log.flushed_position, LIMIT_S)
    before = mark_of(b)
    start = replication.promote(tmp_path / "c", force=("restored", "promises")).start
    assert before > start
    with commitlog.open(tmp_path / "c"), replication.serve(tmp_path / "c") as server:
        replication.follow(server.url(), b).close()
    assert mark_of(b) <= start


def test_copy_of_a_copy_notes_no_durable_position(tmp_path: Path) -> None:
    """A copy may have durably what its primary loses in a crash."""
    with (
        opened(tmp_path / "a") as log,
        replication.follow(url_of(log), tmp_path / "b", listen="127.0.0.1:0") as b,
    ):
        fill(log, 5)
        assert b.server is not None
        with replication.follow(b.server.url(), tmp_path / "c") as c:
            assert c.wait(log.flushed_position, LIMIT_S)
    assert mark_of(tmp_path / "b") > 0
    assert mark_of(tmp_path / "c") == 0


def test_damaged_mark_counts_as_none(
    restored: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "copy" / NAME).write_bytes(b"{")
    assert mark_of(tmp_path / "copy") == 0
    assert "`followed` is damaged" in caplog.text
    assert restored.exists()


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("restore", [overwritten, replaced, moved])
def test_log_restored_under_its_server_gets_no_old_count(
    restore: Callable[[Path, Path], None], count: int, tmp_path: Path
) -> None:
    path = tmp_path / "orders"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        fill(log, 5)
    copy_log(path, tmp_path / "backup")
    with (
        replication.serve(path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        with commitlog.open(path) as log:
            fill(log, 20, "old")
            assert server.wait_replicated(log.append(b"old"), timeout=LIMIT_S)
        before = records(tmp_path / "copy")
        restore(path, tmp_path / "backup")
        with commitlog.open(path) as log:
            positions = [log.append(b"new" * 40) for _ in range(count)]
            log.flush()
            assert not server.wait_replicated(positions[0], timeout=0.1)
        expected: tuple[type[CommitLogError], ...] = (FencedError,)
        why = "different records|has lost records"
        if restore is overwritten:  # while a file is sent: the server may read half a frame
            expected, why = (FencedError, ReplicationError), f"{why}|the frame here is damaged"
        with pytest.raises(expected, match=why):
            follower.wait(timeout=LIMIT_S)
        assert server.followers() == {}
    assert records(tmp_path / "copy") == before


def test_wait_during_the_exchange_of_a_log_takes_no_old_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, answers = tmp_path / "orders", list[bool]()
    with commitlog.open(path, segment_size=SEGMENT) as log:
        fill(log, 5)
    copy_log(path, tmp_path / "backup")
    replace = Served._replace
    with replication.serve(path) as server, replication.follow(server.url(), tmp_path / "copy"):
        with commitlog.open(path) as log:
            assert server.wait_replicated(fill_one(log, b"old"), timeout=LIMIT_S)
        overwritten(path, tmp_path / "backup")
        with commitlog.open(path) as log:
            position = fill_one(log, b"new")

        def wait() -> None:
            answers.append(server.wait_replicated(position, timeout=0.1))

        def replace_late(served: Served) -> bool:
            waiting.start()
            waiting.join(0.3)  # it waits for this exchange, or has ended too early
            return replace(served)

        waiting = threading.Thread(target=wait)
        monkeypatch.setattr(Served, "_replace", replace_late)
        assert not server.wait_replicated(position, timeout=0.1)
        waiting.join()
    assert answers == [False]


def test_promotion_of_an_older_state_is_refused(restored: Path, tmp_path: Path) -> None:
    """Its recovery is a later restart, and its own record makes it reach that."""
    rule = replication.Replication(require=0)
    with commitlog.open(restored, replicate=rule) as log:
        log.append(b"own")
    with (
        replication.serve(tmp_path / "copy") as server,
        pytest.raises(ReplicationError, match="an older state, from a backup"),
    ):
        replication.promote(restored, others=[server.url()])
    assert len(records(tmp_path / "copy")) == 40


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """Make a log that a backup of a closed log took back, and that is longer than its copy again,
    with other records in the same epoch.
    """
    path = tmp_path / "orders"
    copy_of(path, tmp_path / "copy")
    copy_log(path, tmp_path / "backup")
    with (
        commitlog.open(path) as log,
        replication.serve(path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        fill(log, 10, "kept")
        assert follower.wait(log.flushed_position, LIMIT_S)
    moved(path, tmp_path / "backup")
    settle(path)
    with commitlog.open(path) as log:
        fill(log, 40, "other")
    return path


@pytest.mark.parametrize("which", ["orders", "copy"])
def test_promotion_beside_other_records_is_refused(
    strange: Path, tmp_path: Path, which: str
) -> None:
    other = "copy" if which == "orders" else "orders"
    parted = max(position for position, *_ in records(tmp_path / "backup"))
    with replication.serve(tmp_path / other) as server:
        with pytest.raises(
            ReplicationError, match="other records than this log from pos"
        ) as caught:
            replication.promote(tmp_path / which, others=[server.url()])
        assert int(caught.value.message.partition("from position ")[2].split()[0]) > parted
        assert "force" in caught.value.message
        before = records(tmp_path / other)
        replication.promote(tmp_path / which, others=[server.url()], force="promises")
    assert records(tmp_path / other) == before
    with commitlog.open(tmp_path / which) as log:
        log.append(b"one")
