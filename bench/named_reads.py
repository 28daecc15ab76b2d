"""What a named tailer adds to reading, which keeps its place in the log."""

from __future__ import annotations

import statistics
import time

from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, fill, what_is_written
from commitlog.bench.reads import timed, values
from commitlog.bench.sample import Meter, Sample


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """Read a whole log without a name and with one, over and over.

    `added_s` is the median difference of the pairs, a record: half a second later a shared machine
    may be another one.
    """
    settings = ground.settings
    clock = time.perf_counter_ns
    added_s = []
    with ground.log(case, settings.read_bytes) as log:
        count = fill(log, case.value_size, settings.read_bytes)
        with log.tailer() as plain, log.tailer("bench") as named, Meter(case.value_size) as meter:
            values(plain)
            values(named)
            deadline = clock() + int(settings.read_s * 1e9)
            while not meter.sample.records or clock() < deadline:
                plain_ns, began = timed(values, plain), clock()
                named_ns = timed(values, named)
                added_s.append((named_ns - plain_ns) / count / 1e9)
                meter.note(began, named_ns, count)
        meter.sample.facts = {"added_s": statistics.median(added_s)}
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample
