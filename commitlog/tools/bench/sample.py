"""A sample: the figures of one turn of one case, and the meter that takes them."""

from __future__ import annotations

import contextlib
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import psutil


@dataclass
class Sample:
    records: int = 0
    value_bytes: int = 0
    seconds: float = 0.0  # of the appends
    wall_s: float = 0.0  # from the first record to the last flush
    cpu_s: float = 0.0  # in it, of all threads and finished children
    run_delay_s: float | None = None  # what the thread waited for a processor, if it is counted
    rss_bytes: int = 0  # at the end, pages of mapped files included
    latencies_ns: npt.NDArray[np.int64] | None = None
    rates: list[tuple[float, float]] = field(default_factory=list)  # seconds, bytes a second
    facts: dict[str, object] = field(default_factory=dict)  # such as the requested rate


class Meter:
    """Take a sample over a `with` block.

    Processor and memory are those of the whole block, the time is that of the noted parts.
    """

    def __init__(self, value_size: int) -> None:
        self.sample = Sample()
        self._value_size = value_size

    def __enter__(self) -> Self:
        self._cpu_s, self._run_delay_s = _cpu_s(), run_delay_s()
        self._began = time.perf_counter()
        return self

    def note(self, took_ns: int, records: int) -> None:
        self.sample.records += records
        self.sample.seconds += took_ns / 1e9

    def __exit__(self, *_error: object) -> None:
        sample = self.sample
        sample.wall_s = time.perf_counter() - self._began
        sample.cpu_s = _cpu_s() - self._cpu_s
        delay_s = run_delay_s()
        if delay_s is not None and self._run_delay_s is not None:
            sample.run_delay_s = delay_s - self._run_delay_s
        sample.rss_bytes = psutil.Process().memory_info().rss
        sample.value_bytes = sample.records * self._value_size


def run_delay_s() -> float | None:
    """Return how long this thread has waited for a processor; None if it is not counted."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        # Nanoseconds on a processor, nanoseconds waiting for one, number of turns.
        text = Path("/proc/thread-self/schedstat").read_text(encoding="ascii")
        return int(text.split()[1]) / 1e9
    return None


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
