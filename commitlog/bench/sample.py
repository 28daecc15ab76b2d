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

_SERIES_POINTS = 120


@dataclass
class Sample:
    """Figures of one turn.

    Attributes
    ----------
    records, value_bytes : int
        The records appended, and the bytes of their values.
    seconds : float
        How long that took.
    wall_s, cpu_s : float
        From the first record to the last flush, and the processor's time in it: all threads and
        finished children.
    run_delay_s : float or None
        How long the calling thread waited for a processor; None if the kernel does not count it.
    rss_bytes : int
        Memory of the process at the end, pages of mapped files included.
    latencies_ns : numpy.ndarray or None
        Of single operations.
    series : list of (float, float, float)
        Seconds since the start, bytes of values a second, and the largest latency in nanoseconds.
    facts : dict
        Further figures of the workload, such as the requested rate.
    """

    records: int = 0
    value_bytes: int = 0
    seconds: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    run_delay_s: float | None = None
    rss_bytes: int = 0
    latencies_ns: npt.NDArray[np.int64] | None = None
    series: list[tuple[float, float, float]] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)


class Meter:
    """Take a sample over a `with` block.

    Processor and memory are those of the whole block, the time is that of the noted parts.
    """

    def __init__(self, value_size: int) -> None:
        self.sample = Sample()
        self._value_size = value_size
        self._noted: list[tuple[float, float, int]] = []

    def __enter__(self) -> Self:
        self._cpu_s, self._run_delay_s = _cpu_s(), run_delay_s()
        self._began_ns = time.perf_counter_ns()
        return self

    def note(self, began_ns: int, took_ns: int, records: int) -> None:
        """Count `records` that took `took_ns`."""
        self.sample.records += records
        self.sample.seconds += took_ns / 1e9
        self._noted.append(((began_ns - self._began_ns) / 1e9, took_ns / 1e9, records))

    def __exit__(self, *_error: object) -> None:
        sample = self.sample
        sample.wall_s = (time.perf_counter_ns() - self._began_ns) / 1e9
        sample.cpu_s = _cpu_s() - self._cpu_s
        delay_s = run_delay_s()
        if delay_s is not None and self._run_delay_s is not None:
            sample.run_delay_s = delay_s - self._run_delay_s
        sample.rss_bytes = psutil.Process().memory_info().rss
        sample.value_bytes = sample.records * self._value_size
        sample.series = sample.series or self._series()

    def _series(self) -> list[tuple[float, float, float]]:
        """Return the rate over equal steps of time, from how much had ended at their ends."""
        if not self._noted:
            return []
        began_s, took_s, records = np.array(self._noted).T
        ended_s = np.concatenate([began_s[:1], began_s + took_s])
        total_bytes = np.cumsum(np.concatenate([[0], records])) * self._value_size
        steps_s = np.linspace(ended_s[0], ended_s[-1], min(_SERIES_POINTS, len(self._noted)) + 1)
        rates = np.diff(np.interp(steps_s, ended_s, total_bytes)) / np.maximum(
            np.diff(steps_s), 1e-9
        )
        return [(at, rate, 0.0) for at, rate in zip(steps_s.tolist(), rates.tolist(), strict=False)]


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
