"""What an open costs: after a kill, after a power cut, and of a log with many segments that was
closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import commitlog
from commitlog.base.units import KIB
from commitlog.bench.case import SETUPS, Case
from commitlog.bench.ground import Ground, what_is_written
from commitlog.bench.sample import Meter, Sample

_PACKAGES = str(Path(commitlog.__file__).parents[1])
_CRASH_LIMIT_S = 300
SMALL_SEGMENT = 64 * KIB
_OPENS = 10


def measure_recovery(ground: Ground, case: Case, hashed: bool) -> Sample:
    """A process fills a log and dies; the time is that of the next open.

    The forms: "kill", where `cursors` and a shared-memory pool survive; "power-cut", where they do
    not, so that every frame is looked at and what is kept is written again; "scan", where a reader
    looks at every frame, and nothing is written.
    """
    settings = ground.settings
    with ground.place(2 * settings.recovery_bytes) as path:
        _crash(ground, case, path)
        if case.form in ("power-cut", "scan"):
            (path / "cursors").unlink()
        with Meter(case.value_size) as meter:
            began = time.perf_counter_ns()
            log = commitlog.open(path, mode="r") if case.form == "scan" else ground.open(path, case)
            took = time.perf_counter_ns() - began
        with log:
            log_bytes = log.committed_position
            written = what_is_written(log, case.value_size)
        records = written["records"]
        assert isinstance(records, int)
        meter.note(began, took, records)
        sample = meter.sample
        sample.value_bytes = records * case.value_size
        sample.latencies_ns = np.array([took], np.int64)
        sample.facts = {"log_bytes": log_bytes, "log_bytes_s": log_bytes / sample.seconds}
        sample.written = written if hashed else {}
        if case.form == "scan":
            # Only an open for writing takes the buffers of a dead pool back.
            ground.open(path, case).close()
    return sample


def _crash(ground: Ground, case: Case, path: Path) -> None:
    """Have another process write a log and die without closing it."""
    settings = ground.settings
    backing = SETUPS[case.setup].backing or ""
    arguments = (
        path,
        case.value_size,
        settings.recovery_bytes,
        settings.segment_size,
        settings.buffers,
        backing,
    )
    command = [sys.executable, "-m", "commitlog.bench.crash", *map(str, arguments)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGES, os.environ.get("PYTHONPATH"))))
    }
    subprocess.run(command, env=environment, check=True, timeout=_CRASH_LIMIT_S)


def measure_open(ground: Ground, case: Case, hashed: bool) -> Sample:
    """Open a log of many segments that was closed; closing it again is not counted."""
    segments = ground.settings.open_segments
    taken = []
    with ground.place(2 * segments * SMALL_SEGMENT) as path:
        with ground.open(path, case, SMALL_SEGMENT) as log:
            for number in range(segments):
                log.append(str(number).encode())
                if number < segments - 1:
                    log.roll()
        with Meter(0) as meter:
            for _ in range(_OPENS):
                began = time.perf_counter_ns()
                log = (
                    commitlog.open(path, mode="r")
                    if case.form == "read-only"
                    else ground.open(path, case, SMALL_SEGMENT)
                )
                took = time.perf_counter_ns() - began
                log.close()
                meter.note(began, took, 1)
                taken.append(took)
        meter.sample.latencies_ns = np.array(taken, np.int64)
        meter.sample.facts = {"segments": segments}
    return meter.sample
