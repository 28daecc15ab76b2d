"""Reading in every form that there is, from the page cache, with each CRC checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec

from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, fill, what_is_written
from commitlog.bench.sample import Meter, Sample
from commitlog.tail.seek import Direction
from commitlog.tail.tailer import Tailer

BATCH = 65536
_WAIT_S = 0.001


def values(tailer: Tailer) -> None:
    """A `for` loop over bytes."""
    for _value in tailer.values():
        pass


def records(tailer: Tailer) -> None:
    """A `for` loop over records."""
    for _record in tailer:
        pass


def record_values(tailer: Tailer) -> None:
    """A `for` loop that takes each record's value."""
    for record in tailer:
        _ = record.value


def read(tailer: Tailer) -> None:
    """A call for each record."""
    read = tailer.read
    while read() is not None:
        pass


def follow(tailer: Tailer) -> None:
    """As a reader that waits for more, until none has come for a millisecond."""
    for _record in tailer.follow(timeout=_WAIT_S, idle="spin"):
        pass


def batches(tailer: Tailer) -> None:
    """NumPy columns."""
    while len(tailer.read_batch(BATCH)):
        pass


def arrow(tailer: Tailer) -> None:
    """Arrow columns."""
    while len(batch := tailer.read_batch(BATCH)):
        batch.to_arrow()


FORMS: dict[str, Callable[[Tailer], None]] = {
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


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """Read a whole log over and over. The first pass, which brings its pages into this process, is
    not counted.
    """
    settings = ground.settings
    read_all = FORMS[case.form]
    direction: Direction = "backward" if case.form.endswith("-backward") else "forward"
    clock = time.perf_counter_ns
    with ground.log(case, settings.read_bytes) as log:
        count = fill(log, case.value_size, settings.read_bytes)
        with log.tailer(direction=direction) as tailer, Meter(case.value_size) as meter:
            read_all(tailer)
            deadline = clock() + int(settings.read_s * 1e9)
            while not meter.sample.records or clock() < deadline:
                meter.note(clock(), timed(read_all, tailer), count)
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample


def timed(read_all: Callable[[Tailer], None], tailer: Tailer) -> int:
    """Read the whole log in the tailer's direction; return the nanoseconds it took."""
    tailer.seek("end" if tailer.direction == "backward" else "first")
    began = time.perf_counter_ns()
    read_all(tailer)
    return time.perf_counter_ns() - began
