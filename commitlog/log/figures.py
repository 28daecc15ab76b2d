"""Collect the figures of an open log."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import NamedTuple, cast

from commitlog.allocation.disk_monitor import free_bytes
from commitlog.errors import CommitLogError
from commitlog.log.parts import LogParts
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.retention import stored_mark
from commitlog.stats import Latency, LogStats, StoreStats
from commitlog.tail.seek import Seeker
from commitlog.tail.tailer import Tailer


class ReplicationLag(NamedTuple):
    """How far the copies are, and what the loss of this machine would lose now."""

    position: int | None
    bytes: int | None
    ms: float | None


def replication_lag(parts: LogParts) -> ReplicationLag:
    """Return how far the copies are behind the tail; None without a writer with `replicate=`.

    The age of the oldest record that too few copies have is that of its timestamp.
    """
    engine = parts.engine
    if not engine.cursors["replicated"]:
        return ReplicationLag(None, None, None)
    return ReplicationLag(engine.replicated_position, *_behind(parts, engine.replicated_position))


def _behind(parts: LogParts, position: int) -> tuple[int, float]:
    """Return how many bytes a position is behind the tail, and the age of the first record there in
    milliseconds.
    """
    tail = parts.engine.tail_position
    seeker = Seeker(parts.index, visibility="appended", on_damage="skip")
    if position > seeker.cursor.position:
        seeker.cursor.move_to(position)
    lag = max(0, tail - seeker.cursor.position)
    with Tailer(seeker) as tailer:
        record = tailer.read() if lag else None
    age_ns = 0 if record is None else max(0, time.time_ns() - record.timestamp_ns)
    return lag, age_ns / 1e6


def store_stats(parts: LogParts) -> StoreStats | None:
    """Return how far a log is stored, as its directory says; the handle that stores it knows more.
    None if it has no store, or is closed.
    """
    if parts.closed or not parts.has_writers:
        return None
    try:
        stored = stored_mark.read(parts.directory)
    except (CommitLogError, OSError) as error:
        stored = StoreStats(target="", last_error=str(error))
    if stored is None:
        return None
    since_ns = stored.failing_since_ns
    service = None if parts.writer is None else parts.writer.store
    if service is not None:
        stored = service.stored() or stored
    if stored.last_error is None:
        since_ns = None
    # A header page without records is not stored.
    end = min(parts.identity.past_header(stored.position), parts.engine.tail_position)
    lag_bytes, lag_ms = _behind(parts, end)
    return replace(stored, failing_since_ns=since_ns, lag_bytes=lag_bytes, lag_ms=lag_ms)


def log_stats(parts: LogParts) -> LogStats:
    """Take a snapshot: see `CommitLog.stats`."""
    engine, writer = parts.engine, parts.writer
    log, appends = engine.log_counters(), engine.writer_counters()
    tail, appended = engine.tail_position, engine.appended_position
    committed, flushed = engine.committed_position, engine.flushed_position
    lag = replication_lag(parts)
    listener = None if writer is None else writer.listener
    pool = cast("TransientStorePool | None", parts.options.pool)
    return LogStats(
        tail_position=tail,
        appended_position=appended,
        committed_position=committed,
        flushed_position=flushed,
        replicated_position=lag.position,
        uncommitted_bytes=max(0, tail - committed),
        unflushed_bytes=max(0, tail - flushed),
        replication_lag_bytes=lag.bytes,
        replication_lag_ms=lag.ms,
        appends=appends["appends"],
        records=appends["records"],
        appended_bytes=appends["bytes"],
        refused_claims=appends["refused"],
        rolled_back_claims=log["rolled_back"],
        rolls=appends["rolls"],
        committed_bytes=log["committed_bytes"],
        flushed_bytes=log["flushed_bytes"],
        commit_latency=Latency(*engine.latency("commit")),
        flush_latency=Latency(*engine.latency("flush")),
        sync_latency=Latency(*engine.latency("sync")),
        roll_latency=Latency(*engine.latency("roll")),
        claim_latency=Latency(*engine.latency("claim")),
        lag_latency=Latency(*engine.latency("lag")),
        dropped_records=0 if writer is None else writer.backpressure.dropped_records,
        failed=os.strerror(engine.failed) if engine.failed else None,
        free_disk_bytes=free_bytes(parts.directory),
        disk="fine" if writer is None else writer.allocation.disk.state,
        dropped_events=0 if listener is None else listener.dropped,
        listener_failures=0 if listener is None else listener.failures,
        pool=None if pool is None else pool.stats(),
        topics={name: replace(each) for name, each in parts.topics.items()},
        store=store_stats(parts),
        flows=tuple(figures() for figures in tuple(parts.flows.values())),
    )
