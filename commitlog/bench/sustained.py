"""Appending several GiB in one piece: what the pool and the page cache put off must be paid
here.
"""

from __future__ import annotations

import time
from itertools import repeat

from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, frame_size, value_of, what_is_written
from commitlog.bench.sample import Meter, Sample

_BLOCK = 16384


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """One call a record, until the size is reached; the last flush is a part of the time, as it is
    of the baseline's.
    """
    value, total = value_of(case.value_size), ground.settings.sustained_bytes
    blocks = max(1, total // case.value_size // _BLOCK)
    clock = time.perf_counter_ns
    with (
        ground.log(case, blocks * _BLOCK * frame_size(case.value_size)) as log,
        Meter(case.value_size) as meter,
    ):
        append = log.append
        began = clock()
        for _ in range(blocks):
            for _ in repeat(None, _BLOCK):
                append(value)
            ended = clock()
            meter.note(began, ended - began, _BLOCK)
            began = ended
        log.flush(timeout=600)
        meter.note(began, clock() - began, 0)
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample
