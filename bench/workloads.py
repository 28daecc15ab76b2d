"""Workloads that only the project's goals need; `commitlog bench` has those of a user's disk."""

from __future__ import annotations

from bench import keeping, named_reads, python_mmap, reads, recovery, slow_flush
from commitlog.bench import appends
from commitlog.bench.workloads import Baseline, Workload

OWN = (
    Workload(
        name="append-python",
        title="Bursts of appends, against Python alone",
        measure=appends.measure,
        turn_s=lambda settings: 0.5 + settings.append_bytes / 130e6,
        flushes=("async",),
        forms=("single",),
        setups=("pooled",),
        baselines=(Baseline("python-mmap", "Python into a mapped file", python_mmap.measure),),
    ),
    Workload(
        name="read",
        title="Reading",
        measure=reads.measure,
        turn_s=lambda settings: 0.2 + settings.sync_s + settings.append_bytes / 300e6,
        flushes=("async",),
        sizes=(40, 1024),
        forms=tuple(reads.FORMS),
        setups=("mapped", "pooled"),
    ),
    Workload(
        name="read-named",
        title="Reading under a name",
        measure=named_reads.measure,
        turn_s=lambda settings: 0.4 + settings.sync_s + settings.append_bytes / 300e6,
        flushes=("async",),
        setups=("pooled",),
    ),
    Workload(
        name="recovery",
        title="Recovery after a crash",
        measure=recovery.measure,
        turn_s=lambda settings: 0.6 + settings.append_bytes / 35e6,
        unit="B/s",
        sizes=(1024,),
        forms=("scan", "kill", "power-cut"),
        setups=("mapped", "pooled", "pooled-shm"),
        latencies="an open",
    ),
    Workload(
        name="open",
        title="Opening a log of many segments",
        measure=recovery.measure_open,
        turn_s=lambda settings: 2.0,
        unit="s",
        sizes=(0,),
        setups=("mapped", "pooled"),
        forms=("append", "read-only"),
        latencies="an open",
    ),
    Workload(
        name="sync-threads-slow",
        title="Sync appends by several threads, each flush half a millisecond longer",
        measure=slow_flush.measure,
        settles=True,
        turn_s=lambda settings: 0.7 + settings.sync_s,
        setups=("mapped", "pooled"),
        flushes=("sync",),
        threads=(1, 4, 16),
        baselines=(Baseline("page-msync", "msync of one page", slow_flush.measure),),
        latencies="an append until it is durable",
    ),
    Workload(
        name="keeping",
        title="Appending with and without index, listener and retention",
        measure=keeping.measure,
        turn_s=lambda settings: 1 + settings.append_bytes / 20e6,
        flushes=("async",),
        setups=("mapped", "pooled"),
    ),
)
