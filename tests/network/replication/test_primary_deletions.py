"""A primary keeps what the required copies do not have yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import commitlog
from commitlog import CommitLog, Retention
from commitlog.errors import SyncTimeoutError
from commitlog.keep import prune
from commitlog.replication import Replication, follow
from tests.network.replication.scene import LIMIT_S, SEGMENT

ALL = Retention(max_bytes=0)
NOT_COPIED = "the required copies do not have it yet"


def filled(path: Path, rule: Replication, segments: int = 4) -> CommitLog:
    log = commitlog.open(path, replicate=rule, segment_size=SEGMENT)
    for number in range(segments):
        log.append(b"%d" % number)
        log.roll()
    with contextlib.suppress(SyncTimeoutError):
        log.flush()
    return log


def test_no_deletion_passes_what_the_copies_lack(
    tmp_path: Path, until: Callable[..., None]
) -> None:
    rule = Replication(require=1, timeout=0.05)
    with filled(tmp_path / "orders", rule) as log:
        assert log.prune(ALL).stopped_by == NOT_COPIED
        assert log.delete_before(log.tail_position) == []
        assert prune(log.path, ALL).stopped_by == NOT_COPIED
        with commitlog.open(log.path) as other:
            assert other.prune(ALL).stopped_by == NOT_COPIED
        with follow(rule.server.url("orders"), tmp_path / "copy") as copy:
            assert copy.wait(log.flushed_position, LIMIT_S)
            until(lambda: log.prune(ALL).first_position == 3 * SEGMENT)
            assert prune(log.path, ALL).stopped_by != NOT_COPIED


def test_forced_deletion_passes_what_the_copies_lack(tmp_path: Path) -> None:
    with filled(tmp_path / "orders", Replication(require=1, timeout=0.05)) as log:
        assert len(log.delete_before(2 * SEGMENT, force="copies")) == 2
        assert log.prune(ALL, force="store").stopped_by == NOT_COPIED
        assert len(prune(log.path, ALL, force="copies").segments) == 1


def test_log_that_waits_for_no_copies_is_pruned(tmp_path: Path) -> None:
    with filled(tmp_path / "orders", Replication(require=0)) as log:
        assert len(log.prune(Retention(max_bytes="1TiB")).segments) == 0  # seals
        assert len(prune(log.path, ALL).segments) == 3
    rule = Replication(require=1, timeout=0.05, on_missing="async")
    with filled(tmp_path / "async", rule) as log:
        log.append(b"waits once", sync=True)
        assert len(log.prune(ALL).segments) == 3
