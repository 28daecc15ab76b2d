"""Appending at a constant rate. An append's latency counts from the moment at which it was due, so
that a stall counts for all that it delays."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from commitlog.base.units import GIB
from commitlog.bench import baseline
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, frame_size, value_of, what_is_written
from commitlog.bench.quiet import Stolen
from commitlog.bench.sample import Meter, Sample

_WARM_UP_S = 0.2
_STEP_S = 0.1
# Between the choice of the first moment and the first append: the moments of all the others are
# reckoned meanwhile.
_LEAD_NS = 50_000_000
# A disk that is kept busier than this is what would be measured, and not the log.
_DISK_SHARE = 0.6
# Less would only ask the page cache and the drive's own.
_PROBE_BYTES = 2 * GIB


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """Append at the rate for the time that the settings say, after a short run-up that is not
    counted.
    """
    settings = ground.settings
    value = value_of(case.value_size)
    rate = possible_rate(ground)
    records_s = rate / case.value_size
    count = max(1, int(records_s * settings.paced_s))
    run_up = int(records_s * min(_WARM_UP_S, settings.paced_s / 4))
    # Ones, since untouched zeros would be brought in page by page while the clock runs.
    latencies = np.ones(count, np.int64)
    with ground.log(case, (count + run_up) * frame_size(case.value_size)) as log:
        at_rate(log.append, value, records_s, np.zeros(run_up, np.int64))
        with Meter(case.value_size) as meter, Stolen() as stolen:
            began, took = at_rate(log.append, value, records_s, latencies)
            meter.note(began, took, count)
            meter.sample.series = over_time(latencies, records_s, case.value_size)
        meter.sample.latencies_ns = latencies
        meter.sample.facts = {
            "rate_wanted": settings.rate,
            "rate": rate,
            "records_s": records_s,
            **stolen.facts,
        }
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample


def measure_alone(ground: Ground, case: Case, _hashed: bool) -> Sample:
    """The loop that sets the pace, around an append that does nothing: what of the latencies is not
    the log's.
    """
    rate = possible_rate(ground)
    records_s = rate / case.value_size
    latencies = np.ones(max(1, int(records_s * min(ground.settings.paced_s, 3.0))), np.int64)
    with Meter(case.value_size) as meter, Stolen() as stolen:
        began, took = at_rate(len, value_of(case.value_size), records_s, latencies)
        meter.note(began, took, len(latencies))
        meter.sample.series = over_time(latencies, records_s, case.value_size)
    meter.sample.latencies_ns = latencies
    meter.sample.facts = stolen.facts
    return meter.sample


def at_rate(
    append: Callable[[bytes], object],
    value: bytes,
    records_s: float,
    latencies: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """One append each time it is due; when the first was due, and how long all took, in
    nanoseconds.

    It spins, since no sleep is as short as the pause between two appends, and costs some 0.3
    microseconds a record.
    """
    clock = time.perf_counter_ns
    due = (np.arange(len(latencies)) * (1e9 / records_s)).astype(np.int64)
    # Items of a memoryview come and go as plain ints, several times as fast as those of an array.
    taken = latencies.data
    began = clock() + _LEAD_NS
    due += began
    for index, moment in enumerate(due.data):
        while clock() < moment:
            pass
        append(value)
        taken[index] = clock() - moment
    return began, clock() - began


def over_time(
    latencies: npt.NDArray[np.int64], records_s: float, value_size: int
) -> list[tuple[float, float, float]]:
    """Each tenth of a second: the rate at which appends ended in it, and the largest latency of
    those that were due in it.
    """
    due_s = np.arange(len(latencies)) / records_s
    ended = np.bincount(((due_s + latencies / 1e9) / _STEP_S).astype(np.int64))
    steps = (due_s / _STEP_S).astype(np.int64)
    worst = np.zeros(max(len(ended), steps[-1] + 1), np.int64)
    np.maximum.at(worst, steps, latencies)
    # The last step is seldom whole, and would look like a stall.
    whole = max(1, int(due_s[-1] / _STEP_S))
    return [
        (step * _STEP_S, float(ended[step]) * value_size / _STEP_S, float(worst[step]))
        for step in range(min(whole, len(ended)))
    ]


def possible_rate(ground: Ground) -> int:
    """The rate of the settings, or less where the disk cannot keep up with it: asked of the disk
    once a run.
    """
    if ground.disk_rate is None:
        size = min(_PROBE_BYTES, int(ground.settings.rate * ground.settings.paced_s))
        with ground.place(size) as path:
            ground.disk_rate = size / baseline.write_plainly(ground, path, size).seconds
    return min(ground.settings.rate, int(ground.disk_rate * _DISK_SHARE))
