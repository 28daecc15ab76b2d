"""Snapshot: what the files that the processes of a log share say at one moment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from commitlog._kernel import memory as kernel
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import CommitLogError
from commitlog.log.figures import ReplicationLag, replication_lag, store_stats
from commitlog.log.parts import LogParts
from commitlog.segment import cursors_file
from commitlog.segment.cursors_file import Writer
from commitlog.segment.directory import LogDirectory
from commitlog.stats import StoreStats
from commitlog.tail import tailer_state
from commitlog.tail.tailer_state import TailerState

_UNSETTLED = 16  # sealed segments that may still give back blocks


@dataclass(frozen=True)
class Snapshot:
    """The shared state of an open log. Positions and sizes are in bytes.

    `mode` is None if no writer has opened the log since the machine started. `failed` says why the
    log has failed. `sequences` are the first and the next sequence, None if they are damaged; all
    is None if the records must be counted. The space of the file system is None for an archive or
    a segment file. `flush_leader` is the slot of the writer that leads a flush.
    """

    kind: str
    mode: Literal["mapped", "pooled"] | None
    recovering: bool
    failed: str | None
    first: int
    tail: int
    appended: int
    committed: int
    flushed: int
    lag: ReplicationLag
    sequences: tuple[int, int] | tuple[None, None] | None
    segment_numbers: list[int]
    disk_bytes: int
    free_disk_bytes: int | None
    disk_size_bytes: int | None
    rolled_back_claims: int
    writers: list[Writer]
    flush_leader: int | None
    tailers: list[TailerState]
    store: StoreStats | None


def take_snapshot(parts: LogParts) -> Snapshot:
    parts.check_open()
    parts.queue.drop_deleted()
    engine, directory = parts.engine, parts.directory
    first = parts.queue.first_number * directory.segment_size + HEADER_SIZE
    # Read the lower watermarks first: if one moves meanwhile, it does not exceed a higher one.
    flushed, committed, appended, tail = (
        engine.flushed_position,
        engine.committed_position,
        engine.appended_position,
        engine.tail_position,
    )
    directory.settled_below = flushed // directory.segment_size - _UNSETTLED
    free, size = _space(directory) if parts.has_writers else (None, None)
    cells = engine.cursors
    shared = cells.shared
    return Snapshot(
        kind=directory.kind,
        mode=None if not shared else "pooled" if cells.mode == kernel.MODE_POOLED else "mapped",
        recovering=shared and cells["state"] == kernel.STATE_RECOVERING,
        failed=os.strerror(engine.failed) if engine.failed else None,
        first=first,
        tail=tail,
        appended=appended,
        committed=committed,
        flushed=flushed,
        lag=replication_lag(parts),
        sequences=_sequences(directory),
        segment_numbers=directory.segment_numbers(),
        disk_bytes=directory.whole_disk_bytes(),
        free_disk_bytes=free,
        disk_size_bytes=size,
        rolled_back_claims=cells["rolled_back"],
        writers=cursors_file.writers(directory.fd, cells),
        flush_leader=cells.flush_leader,
        tailers=tailer_state.states(directory, committed) if parts.has_writers else [],
        store=store_stats(parts),
    )


def _sequences(directory: LogDirectory) -> tuple[int, int] | tuple[None, None] | None:
    try:
        return directory.sequences()
    except CommitLogError:
        return None, None


def _space(directory: LogDirectory) -> tuple[int, int]:
    """Return the free bytes of a file system for this user, and its size."""
    found = os.fstatvfs(directory.fd)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
