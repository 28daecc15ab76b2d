"""Appends at a constant rate.

A latency counts from the moment at which the append was due, so that a stall counts for every
append that it delays.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from commitlog.base.units import GIB
from commitlog.extension import frame_size
from commitlog.tools.bench import disk
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

_WARM_UP_S = 0.2
# From the choice of the first moment to the first append: the other moments are computed here.
_LEAD_NS = 50_000_000
# At a larger share, the run would measure the disk and not the log.
_DISK_SHARE = 0.6
# Less would measure only the page cache and the cache of the drive.
_PROBE_BYTES = 2 * GIB
_ALONE_S = 3.0


def measure(workspace: Workspace, case: Case) -> Sample:
    """Append at the rate for the time in the settings, after a short warm-up."""
    settings = workspace.settings
    value = value_of(case.value_size)
    rate = possible_rate(workspace)
    records_s = rate / case.value_size
    count = max(1, int(records_s * settings.paced_s))
    warm_up = int(records_s * min(_WARM_UP_S, settings.paced_s / 4))
    with workspace.log(case, (count + warm_up) * frame_size(case.value_size)) as log:
        at_rate(log.append, value, records_s, np.zeros(warm_up, np.int64))
        sample = _measure(log.append, case, records_s, count)
    sample.facts = {"rate_wanted": settings.rate, "rate": rate, "records_s": records_s}
    return sample


def measure_alone(workspace: Workspace, case: Case) -> Sample:
    """Pace a call that does nothing: latencies that the machine has without the log."""
    records_s = possible_rate(workspace) / case.value_size
    seconds = min(workspace.settings.paced_s, _ALONE_S)
    return _measure(len, case, records_s, max(1, int(records_s * seconds)))


def _measure(append: Callable[[bytes], object], case: Case, records_s: float, count: int) -> Sample:
    # Not zeros, whose pages would be faulted in one by one while the clock runs.
    latencies = np.ones(count, np.int64)
    with Meter(case.value_size) as meter:
        meter.note(at_rate(append, value_of(case.value_size), records_s, latencies), count)
    meter.sample.latencies_ns = latencies
    return meter.sample


def at_rate(
    append: Callable[[bytes], object],
    value: bytes,
    records_s: float,
    latencies: npt.NDArray[np.int64],
) -> int:
    """Append at the due times, and fill in the latencies; return the nanoseconds of all.

    It spins, since no sleep is as short as the pause between two appends; that costs some 0.3
    microseconds a record.
    """
    clock = time.perf_counter_ns
    due = (np.arange(len(latencies)) * (1e9 / records_s)).astype(np.int64)
    # Items of a memoryview are plain ints, several times as fast as those of an array.
    taken = latencies.data
    began = clock() + _LEAD_NS
    due += began
    for index, moment in enumerate(due.data):
        while clock() < moment:
            pass
        append(value)
        taken[index] = clock() - moment
    return clock() - began


def possible_rate(workspace: Workspace) -> int:
    """Return the rate of the settings, or less if the disk is slower; measured once a run."""
    settings = workspace.settings
    if workspace.disk_rate is None:
        size = min(_PROBE_BYTES, int(settings.rate * settings.paced_s))
        with workspace.path(size) as path:
            workspace.disk_rate = size / disk.write_plainly(path, size)
    return min(settings.rate, int(workspace.disk_rate * _DISK_SHARE))
