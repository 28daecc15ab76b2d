"""Workloads that only the project's goals need; `commitlog bench` has those of a user's disk."""

from __future__ import annotations

from bench import keeping, named_reads, python_mmap, reads, recovery, slow_flush
from commitlog.tools.bench import appends
from commitlog.tools.bench.workloads import Baseline, Workload

OWN = (
    Workload(
        name="append-python",
        title="Bursts of appends, against Python alone",
        measure=appends.measure_bursts,
        flushes=("async",),
        forms=("single",),
        setups=("pooled",),
        baselines=(Baseline("python-mmap", "Python into a mapped file", python_mmap.measure),),
    ),
    Workload(
        name="read",
        title="Reading",
        measure=reads.measure,
        flushes=("async",),
        sizes=(40, 1024),
        forms=tuple(reads.FORMS),
        setups=("mapped", "pooled"),
    ),
    Workload(
        name="read-named",
        title="Reading under a name",
        measure=named_reads.measure,
        flushes=("async",),
        setups=("pooled",),
    ),
    Workload(
        name="recovery",
        title="Recovery after a crash",
        measure=recovery.measure,
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
        flushes=("async",),
        setups=("mapped", "pooled"),
    ),
)
