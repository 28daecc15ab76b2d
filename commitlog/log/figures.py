"""Collect the figures of an open log."""

from __future__ import annotations

import os
from typing import cast

from commitlog.allocation.disk_monitor import free_bytes
from commitlog.log.parts import LogParts
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.stats import Latency, LogStats


def log_stats(parts: LogParts) -> LogStats:
    """Take a snapshot: see `CommitLog.stats`."""
    engine, writer = parts.engine, parts.writer
    log, appends = engine.log_counters(), engine.writer_counters()
    tail, appended = engine.tail_position, engine.appended_position
    committed, flushed = engine.committed_position, engine.flushed_position
    listener = None if writer is None else writer.listener
    pool = cast("TransientStorePool | None", parts.options.pool)
    return LogStats(
        tail_position=tail,
        appended_position=appended,
        committed_position=committed,
        flushed_position=flushed,
        uncommitted_bytes=max(0, tail - committed),
        unflushed_bytes=max(0, tail - flushed),
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
    )
