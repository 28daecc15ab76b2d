"""Opening: after a kill, after a power cut, and of a log with many segments.

Run as ``python -m bench.recovery PATH VALUE_SIZE BYTES SEGMENT_SIZE BUFFERS BACKING``,
it is the process that fills a log and dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import commitlog
from bench.reads import fill
from commitlog.base.units import KIB
from commitlog.options import OptionOverrides, Tuning
from commitlog.tools.bench.case import SETUPS, Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

SMALL_SEGMENT = 64 * KIB
_OPENS = 10
_CRASH_LIMIT_S = 300
_PACKAGES = str(Path(__file__).resolve().parents[1])
# No checkpoint comes before the crash, so recovery has the whole log before it.
_NEVER_S = 3600


def measure(workspace: Workspace, case: Case) -> Sample:
    """Time the open after a process filled a log and died.

    The forms: "kill", where `cursors` and shared memory survive; "power-cut", where they do not,
    so that recovery checks every frame and writes again what it keeps; "scan", where a reader
    checks every frame and nothing is written.
    """
    with workspace.path(2 * recovery_bytes(workspace)) as path:
        crash(workspace, case, path)
        if case.form != "kill":
            (path / "cursors").unlink()
        with Meter(case.value_size) as meter:
            began = time.perf_counter_ns()
            scans = case.form == "scan"
            log = commitlog.open(path, mode="r") if scans else workspace.open(path, case)
            took = time.perf_counter_ns() - began
        with log:
            log_bytes = log.committed_position
            records = read_back(log, case.value_size)
        if scans:
            # Only an open for writing frees the buffers of a dead pool.
            workspace.open(path, case).close()
    sample = meter.sample
    meter.note(took, records)
    sample.value_bytes = records * case.value_size
    sample.latencies_ns = np.array([took], np.int64)
    sample.facts = {"log_bytes": log_bytes, "log_bytes_s": log_bytes / sample.seconds}
    return sample


def recovery_bytes(workspace: Workspace) -> int:
    """Return the size of the log that is recovered."""
    return 4 * workspace.settings.append_bytes


def crash(workspace: Workspace, case: Case, path: Path) -> None:
    """Have another process write a log and die without closing it."""
    settings = workspace.settings
    sizes = (case.value_size, recovery_bytes(workspace), settings.segment_size, settings.buffers)
    arguments = map(str, (path, *sizes, SETUPS[case.setup].backing or ""))
    command = [sys.executable, "-m", "bench.recovery", *arguments]
    subprocess.run(command, cwd=_PACKAGES, check=True, timeout=_CRASH_LIMIT_S)


def read_back(log: commitlog.CommitLog, value_size: int) -> int:
    """Check that each value is the one that was appended; return how many there are.

    Raises
    ------
    RuntimeError
        The log holds something else.
    """
    expected, records = np.frombuffer(value_of(value_size), np.uint8), 0
    with log.tailer(visibility="appended") as tailer:
        while len(batch := tailer.read_batch(1 << 16)):
            values = np.asarray(batch.data)
            if len(values) % value_size or (values.reshape(-1, value_size) != expected).any():
                raise RuntimeError(f"{log.path} does not hold what was appended")
            records += len(batch)
    return records


def measure_open(workspace: Workspace, case: Case) -> Sample:
    """Time opens of a closed log of many segments; closing does not count."""
    segments, taken = 10 if workspace.settings.quick else 1000, []
    with workspace.path(2 * segments * SMALL_SEGMENT) as path:
        with workspace.open(path, case, SMALL_SEGMENT) as log:
            for number in range(segments):
                log.append(str(number).encode())
                if number < segments - 1:
                    log.roll()
        with Meter(0) as meter:
            for _ in range(_OPENS):
                began = time.perf_counter_ns()
                reads = case.form == "read-only"
                log = (
                    commitlog.open(path, mode="r")
                    if reads
                    else workspace.open(path, case, SMALL_SEGMENT)
                )
                took = time.perf_counter_ns() - began
                log.close()
                meter.note(took, 1)
                taken.append(took)
    meter.sample.latencies_ns = np.array(taken, np.int64)
    meter.sample.facts = {"segments": segments}
    return meter.sample


def main() -> None:
    """Fill a log and die."""
    path, value_size, total_bytes, segment_size, buffers, backing = sys.argv[1:]
    tuning = Tuning(checkpoint_interval=_NEVER_S)
    options: OptionOverrides = {"flush": "none", "tuning": tuning}
    options["segment_size"] = int(segment_size)
    if backing:
        options["pool"] = commitlog.TransientStorePool(
            buffers=int(buffers),
            buffer_size=int(segment_size),
            backing="shm" if backing == "shm" else "anonymous",
            low_water=0,
        )
    log = commitlog.open(path, **options)
    fill(log, int(value_size), int(total_bytes))
    os._exit(0)


if __name__ == "__main__":
    main()
