"""Sync appends: each waits until its record is durable; threads share flushes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.extension import frame_size
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

_FASTEST_SYNC_S = 5e-6  # no disk is faster, so the log has room for every append
_WARM_UP_APPENDS = 20
_BARRIER_S = 60.0


def measure(workspace: Workspace, case: Case) -> Sample:
    """Append from several threads, each the next record when its last one is durable."""
    value, seconds = value_of(case.value_size), workspace.settings.sync_s
    barrier = threading.Barrier(case.threads + 1)
    room = int(frame_size(case.value_size) * seconds * case.threads / _FASTEST_SYNC_S)
    with workspace.log(case, room) as log, ThreadPoolExecutor(case.threads) as threads:
        try:
            futures = [
                threads.submit(append_for, log, value, seconds, barrier)
                for _ in range(case.threads)
            ]
            barrier.wait(_BARRIER_S)
            with Meter(case.value_size) as meter:
                began = time.perf_counter_ns()
                taken = [future.result() for future in futures]
                meter.note(time.perf_counter_ns() - began, sum(map(len, taken)))
        finally:
            # Release threads that still wait if a signal ended the turn.
            barrier.abort()
        stats = log.stats()
        mean_s = stats.flush_latency.mean_seconds
        meter.sample.latencies_ns = np.concatenate(taken)
        meter.sample.facts = {"flushes": stats.flushes, "mean_flush_s": mean_s}
    return meter.sample


def append_for(
    log: commitlog.CommitLog, value: bytes, seconds: float, barrier: threading.Barrier
) -> npt.NDArray[np.int64]:
    """Append in one thread; return the nanoseconds of each append."""
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
