"""A sample: what one turn of one case gave, and the meter that takes it."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import psutil

_SERIES_POINTS = 240


@dataclass
class Sample:
    """One turn's figures.

    Attributes
    ----------
    records, value_bytes : int
        What was appended or read in the seconds that were timed.
    seconds : float
        The time of that alone.
    wall_s, user_s, system_s : float
        From the first record to the last drain, and the processor's time in it, all threads and
        finished children.
    rss_bytes : int
        Memory of the process at the end, file pages that it maps included.
    latencies_ns : numpy.ndarray or None
        Of single operations.
    series : list of (float, float, float)
        Seconds since the start, bytes of values a second, and the largest latency there in
        nanoseconds, 0 where none was taken.
    facts : dict
        What else is worth keeping: the rate that was asked for, the compiler, ...
    written : dict
        Records, bytes and SHA-256 of the values that stand in the log afterwards.
    """

    records: int = 0
    value_bytes: int = 0
    seconds: float = 0.0
    wall_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    rss_bytes: int = 0
    latencies_ns: npt.NDArray[np.int64] | None = None
    series: list[tuple[float, float, float]] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    written: dict[str, object] = field(default_factory=dict)


class Meter:
    """Takes a sample: processor and memory over a `with`, time over the blocks that are noted in
    it.
    """

    def __init__(self, value_size: int) -> None:
        self.sample = Sample()
        self._value_size = value_size
        self._blocks: list[tuple[float, float, int]] = []

    def __enter__(self) -> Self:
        self._usage = _processor_seconds()
        self._began_ns = time.perf_counter_ns()
        return self

    def note(self, began_ns: int, took_ns: int, records: int) -> None:
        """Count `records` that took so long."""
        self.sample.records += records
        self.sample.seconds += took_ns / 1e9
        self._blocks.append(((began_ns - self._began_ns) / 1e9, took_ns / 1e9, records))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sample = self.sample
        sample.wall_s = (time.perf_counter_ns() - self._began_ns) / 1e9
        user, system = _processor_seconds()
        sample.user_s, sample.system_s = user - self._usage[0], system - self._usage[1]
        sample.rss_bytes = psutil.Process().memory_info().rss
        sample.value_bytes = sample.records * self._value_size
        if not sample.series:
            sample.series = self._series()

    def _series(self) -> list[tuple[float, float, float]]:
        """The blocks as a curve of so many points at most: neighbours are taken together."""
        step = max(1, -(-len(self._blocks) // _SERIES_POINTS))
        curve = []
        for first in range(0, len(self._blocks), step):
            part = self._blocks[first : first + step]
            seconds = sum(took for _, took, _ in part)
            if seconds:
                curve.append(
                    (
                        part[0][0],
                        sum(records for _, _, records in part) * self._value_size / seconds,
                        0.0,
                    )
                )
        return curve


def _processor_seconds() -> tuple[float, float]:
    own, children = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime
