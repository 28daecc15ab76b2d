"""Workloads that only the project's goals need. `commitlog bench` has those that a user asks of his
disk.
"""

from __future__ import annotations

from bench import keeping, named_reads, slow_flush
from commitlog.bench.workloads import Baseline, Workload

OWN = (
    Workload(
        name="sync-threads-slow",
        title="Sync appends by several threads, each flush half a millisecond longer",
        measure=slow_flush.measure,
        settles=True,
        turn_s=lambda settings: 0.7 + settings.sync_s,
        setups=("mapped", "pooled"),
        flushes=("sync",),
        threads=(1, 4, 16),
        baselines=(
            Baseline(
                name="page-msync",
                title="msync of one page",
                measure=slow_flush.measure,
                sizes=(40,),
            ),
        ),
        latencies="an append until it is durable",
    ),
    Workload(
        name="read-named",
        title="Reading under a name",
        measure=named_reads.measure,
        turn_s=lambda settings: 0.4 + settings.read_s + settings.read_bytes / 300e6,
        flushes=("async",),
        setups=("pooled",),
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
