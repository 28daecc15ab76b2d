"""Sync appends: each waits until its record is durable, and one flush serves all that wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, frame_size, value_of, what_is_written
from commitlog.bench.sample import Meter, Sample

_FASTEST_SYNC_S = (
    5e-6  # an append that waits for a disk takes longer, and so the log has room enough
)
_WARM_UP_APPENDS = 20
_BARRIER_S = 60.0


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """So many threads append, each the next record as soon as its last one is durable."""
    value, seconds = value_of(case.value_size), ground.settings.sync_s
    barrier = threading.Barrier(case.threads + 1)
    room = int(frame_size(case.value_size) * seconds * case.threads / _FASTEST_SYNC_S)
    with ground.log(case, room) as log, ThreadPoolExecutor(case.threads) as threads:
        try:
            futures = [
                threads.submit(append_for, log, value, seconds, barrier)
                for _ in range(case.threads)
            ]
            barrier.wait(_BARRIER_S)
            with Meter(case.value_size) as meter:
                began = time.perf_counter_ns()
                taken = [future.result() for future in futures]
                meter.note(began, time.perf_counter_ns() - began, sum(map(len, taken)))
        finally:
            # Whoever still waits for the others goes home, when a signal ended this early.
            barrier.abort()
        stats = log.stats()
        meter.sample.latencies_ns = np.concatenate(taken)
        meter.sample.facts = {
            "flushes": stats.flushes,
            "mean_flush_s": stats.flush_latency.mean_seconds,
        }
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample


def append_for(
    log: commitlog.CommitLog, value: bytes, seconds: float, barrier: threading.Barrier
) -> npt.NDArray[np.int64]:
    """What one thread does: the nanoseconds of each of its appends, from when all threads were
    ready.
    """
    append, clock = log.append, time.perf_counter_ns
    for _ in range(_WARM_UP_APPENDS):
        append(value)
    taken: list[int] = []
    barrier.wait(_BARRIER_S)
    began = clock()
    deadline = began + int(seconds * 1e9)
    while began < deadline:
        append(value)
        ended = clock()
        taken.append(ended - began)
        began = ended
    return np.array(taken, np.int64)
