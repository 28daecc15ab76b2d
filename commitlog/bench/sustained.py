"""Several GiB in one piece, including the work that the pool and the page cache delay."""

from __future__ import annotations

import time
from itertools import repeat

from commitlog.bench import disk
from commitlog.bench.case import Case
from commitlog.bench.sample import Meter, Sample
from commitlog.bench.workspace import Workspace, frame_size, value_of

_BLOCK = 16384


def measure(workspace: Workspace, case: Case) -> Sample:
    """Append one record a call; the last flush counts."""
    value = value_of(case.value_size)
    blocks = max(1, workspace.settings.sustained_bytes // case.value_size // _BLOCK)
    total_bytes = blocks * _BLOCK * frame_size(case.value_size)
    clock = time.perf_counter_ns
    with workspace.log(case, total_bytes) as log, Meter(case.value_size) as meter:
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
    return meter.sample


def measure_plain_write(workspace: Workspace, case: Case) -> Sample:
    """Write as many bytes as `measure` puts into its log; the rate is that of the values."""
    records = max(1, workspace.settings.sustained_bytes // case.value_size)
    total_bytes = records * frame_size(case.value_size)
    with workspace.path(total_bytes) as path, Meter(case.value_size) as meter:
        began = time.perf_counter_ns()
        meter.note(began, int(disk.write_plainly(path, total_bytes) * 1e9), records)
    meter.sample.facts = {"piece_bytes": disk.PIECE, "sync_every_bytes": disk.SYNC_EVERY}
    return meter.sample
