"""Reading in every form, from the page cache, with each CRC checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

import commitlog
from commitlog.extension import frame_size
from commitlog.tail.seek import Direction
from commitlog.tail.tailer import Tailer
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

BATCH = 65536
ReadAll = Callable[[Tailer], None]
_WAIT_S = 0.001
_ROWS = 1024


def values(tailer: Tailer) -> None:
    """Loop over bytes."""
    for _value in tailer.values():
        pass


def records(tailer: Tailer) -> None:
    """Loop over records."""
    for _record in tailer:
        pass


def record_values(tailer: Tailer) -> None:
    """Loop over records and take each value."""
    for record in tailer:
        _ = record.value


def read(tailer: Tailer) -> None:
    """Call once a record."""
    read = tailer.read
    while read() is not None:
        pass


def follow(tailer: Tailer) -> None:
    """Follow until no record has come for a millisecond."""
    for _record in tailer.follow(timeout=_WAIT_S, idle="spin"):
        pass


def batches(tailer: Tailer) -> None:
    """Read NumPy columns."""
    while len(tailer.read_batch(BATCH)):
        pass


def arrow(tailer: Tailer) -> None:
    """Read Arrow columns."""
    while len(batch := tailer.read_batch(BATCH)):
        batch.to_arrow()


FORMS: dict[str, ReadAll] = {
    "values": values,
    "values-backward": values,
    "read_batch-backward": batches,
    "records": records,
    "record-values": record_values,
    "read": read,
    "follow": follow,
    "read_batch": batches,
}
if find_spec("pyarrow") is not None:
    FORMS["arrow"] = arrow


def measure(workspace: Workspace, case: Case) -> Sample:
    """Read a whole log over and over; the first pass, which maps the pages, does not count."""
    read_all, clock = FORMS[case.form], time.perf_counter_ns
    direction: Direction = "backward" if case.form.endswith("-backward") else "forward"
    size = workspace.settings.append_bytes
    with workspace.log(case, size) as log:
        count = fill(log, case.value_size, size)
        with log.tailer(direction=direction) as tailer, Meter(case.value_size) as meter:
            read_all(tailer)
            deadline = clock() + int(workspace.settings.sync_s * 1e9)
            while not meter.sample.records or clock() < deadline:
                meter.note(timed(read_all, tailer), count)
    return meter.sample


def timed(read_all: ReadAll, tailer: Tailer) -> int:
    """Read the whole log in the tailer's direction; return the nanoseconds it took."""
    tailer.seek("end" if tailer.direction == "backward" else "first")
    began = time.perf_counter_ns()
    read_all(tailer)
    return time.perf_counter_ns() - began


def fill(log: commitlog.CommitLog, value_size: int, total_bytes: int) -> int:
    """Append records of `total_bytes` of log, flush them, and return their number."""
    rows = np.frombuffer(value_of(value_size) * _ROWS, np.uint8).reshape(_ROWS, value_size)
    records = 0
    while records * frame_size(value_size) < total_bytes:
        log.append_array(rows)
        records += len(rows)
    log.flush(timeout=60)
    return records
