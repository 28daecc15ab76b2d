"""Appends as fast as they go: in bursts, and several GiB in one piece."""

from __future__ import annotations

import time
from itertools import repeat
from typing import Any

import numpy as np

import commitlog
from commitlog.extension import frame_size
from commitlog.tools.bench import disk
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

FORMS = ("single", "batch", "array")
_BATCH = 1024
_SYNC_CALLS = 16
_LONGEST_S = 10.0
_STEPS = 120


def measure_bursts(workspace: Workspace, case: Case) -> Sample:
    """Append in bursts until the turn's bytes or seconds are used up.

    Unless appends wait for the disk, the log is flushed or committed after a burst, and rests. The
    first burst does not count.
    """
    settings, clock = workspace.settings, time.perf_counter_ns
    frame, sync = frame_size(case.value_size), case.flush == "sync"
    room = settings.append_bytes + 2 * settings.burst_bytes
    with workspace.log(case, room) as log, Meter(case.value_size) as meter:
        call, argument, per_call = _call_of(log, case.form, value_of(case.value_size))
        calls = _SYNC_CALLS if sync else max(1, settings.burst_bytes // frame // per_call)

        def burst() -> int:
            began = clock()
            for _ in repeat(None, calls):
                call(argument)
            took = clock() - began
            if case.flush == "async":
                log.flush(timeout=60)
            elif case.flush == "none":
                log.commit()
            if not sync:
                time.sleep(settings.rest_s)
            return took

        burst()
        deadline = clock() + int((settings.sync_s if sync else _LONGEST_S) * 1e9)
        while not meter.sample.records or (
            meter.sample.records * frame < settings.append_bytes and clock() < deadline
        ):
            meter.note(burst(), calls * per_call)
    return meter.sample


def _call_of(log: commitlog.CommitLog, form: str, value: bytes) -> tuple[Any, Any, int]:
    if form == "batch":
        return log.append_many, [value] * _BATCH, _BATCH
    if form == "array":
        rows = np.frombuffer(value * _BATCH, np.uint8).reshape(_BATCH, len(value))
        return log.append_array, rows, _BATCH
    return log.append, value, 1


def measure_sustained(workspace: Workspace, case: Case) -> Sample:
    """Append several GiB, including the work that the pool and the page cache delay; the last flush
    counts.
    """
    value = value_of(case.value_size)
    per_step = max(1, workspace.settings.sustained_bytes // case.value_size // _STEPS)
    total_bytes = _STEPS * per_step * frame_size(case.value_size)
    clock = time.perf_counter_ns
    with workspace.log(case, total_bytes) as log, Meter(case.value_size) as meter:
        append, moments = log.append, [clock()]
        for _ in range(_STEPS):
            for _ in repeat(None, per_step):
                append(value)
            moments.append(clock())
        log.flush(timeout=600)
        meter.note(clock() - moments[0], _STEPS * per_step)
    ended_s = (np.array(moments[1:]) - moments[0]) / 1e9
    rates = per_step * case.value_size / np.diff(ended_s, prepend=0.0)
    meter.sample.rates = list(zip(ended_s.tolist(), rates.tolist(), strict=True))
    return meter.sample


def measure_plain_write(workspace: Workspace, case: Case) -> Sample:
    """Write as many bytes as a sustained turn puts into its log; the rate is that of the values."""
    records = max(1, workspace.settings.sustained_bytes // case.value_size)
    total_bytes = records * frame_size(case.value_size)
    with workspace.path(total_bytes) as path, Meter(case.value_size) as meter:
        meter.note(int(disk.write_plainly(path, total_bytes) * 1e9), records)
    meter.sample.facts = {"piece_bytes": disk.PIECE, "sync_every_bytes": disk.SYNC_EVERY}
    return meter.sample
