"""A copy whose disk fails acknowledges nothing more, and its next open recovers it."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog._kernel.segments import Segment
from commitlog.errors import DiskFullError, IOFailureError
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.open_calls import open_log
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.replica import Replica, fence_closed
from commitlog.network.replication.sender import Sender
from commitlog.network.replication.served import Served
from commitlog.network.replication.wire import Chunk
from commitlog.recovery.lineage import Rank
from tests.network.replication.scene import LIMIT_S, copy_of, fill


class FailingOnce:
    """A segment whose first flush fails; Linux would let the second one succeed."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._failed = False

    def flush(self, start: int, stop: int) -> None:
        if not self._failed:
            self._failed = True
            raise IOFailureError("cannot flush", errno=errno.EIO)
        self._segment.flush(start, stop)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._segment, name)


def frames_behind(log: commitlog.CommitLog, position: int) -> Chunk:
    served = Served(open_log(log.path, "r"), functools.partial(fence_closed, log.path))
    try:
        return next(chunk for chunk in Sender(served, position, []).chunks() if chunk.frames)
    finally:
        served.log.close()


def test_failed_flush_of_a_copy_is_final(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replica = Replica(str(tmp_path / "copy"))
    before = replica.position
    with commitlog.open(tmp_path / "orders") as log:
        fill(log, 1)
        chunk = frames_behind(log, before)
    writer = replica._writer
    writer._segment = FailingOnce(writer._writable())  # type: ignore[assignment]
    with pytest.raises(IOFailureError, match="cannot flush"):
        replica.write(chunk)
    with pytest.raises(IOFailureError, match="cannot flush"):
        replica.sync()
    with pytest.raises(IOFailureError, match="cannot flush"):
        replica.promise(Asked(Rank(1, "a" * 32)))
    assert replica.position == before
    uuid = replica.log.identity.uuid
    replica.close()
    fd = os.open(tmp_path / "copy", os.O_RDONLY)
    left = checkpoints.read(fd, uuid)
    os.close(fd)
    assert left is not None
    assert (left.clean, left.position) == (False, before)
    with (
        replication.serve(tmp_path / "orders") as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        assert follower.wait(before + len(chunk.frames), LIMIT_S)


def test_full_disk_of_a_copy_is_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Replica, chunk: Chunk) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        commitlog.open(tmp_path / "orders") as log,
        replication.serve(tmp_path / "orders") as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        monkeypatch.setattr(Replica, "_write_frames", refuse)
        fill(log, 1)
        with pytest.raises(DiskFullError, match="no room to write the copy"):
            follower.wait(timeout=LIMIT_S)
