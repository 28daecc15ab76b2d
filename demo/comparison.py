"""Comparison: append the same lines to a mapped log without and with pre-faulting, and to a pooled
log, in a separate process.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import corpus
import numpy as np
from child import run, task, tell
from counters import MEASURED
from writer import BUFFERS

import commitlog
from commitlog import CommitLog, TransientStorePool

VARIANTS = ("mapped", "mapped, pre-faulted", "pooled")
ROUNDS = 3
# All runs: the rounds of each variant at full speed, and one at a constant rate.
RUNS = len(VARIANTS) * (ROUNDS + 1)
PERCENTILES = (50.0, 99.0, 99.9)
_LEAD_NS = 2_000_000


@dataclass(frozen=True)
class ComparisonJob:
    """The parameters of the comparison.

    Attributes
    ----------
    folder, corpus_file : str
        The directory for the logs, and the file with the lines.
    segment_size : int
        Bytes of a segment and of a buffer.
    rate, seconds : float
        Lines a second of the run at a constant rate, and its duration.
    """

    folder: str
    corpus_file: str
    segment_size: int
    rate: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the job as an object for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Figures:
    """The figures of a variant.

    Attributes
    ----------
    variant : str
        Its name.
    append_ns : float
        The time of an append in a plain Python loop at full speed, the median of the rounds.
    megabytes_per_second : float
        The bytes of lines a second in that loop.
    latencies_us : list of float
        The percentiles and the maximum at the constant rate, from the time at which an append was
        due to its end.
    complete : bool
        Whether the log of each run held all lines.
    """

    variant: str
    append_ns: float
    megabytes_per_second: float
    latencies_us: list[float]
    complete: bool

    @property
    def speeds(self) -> tuple[float, float]:
        """Return nanoseconds an append, and megabytes a second."""
        return self.append_ns, self.megabytes_per_second


@contextmanager
def _open(variant: str, path: str, segment_size: int) -> Iterator[CommitLog]:
    if variant == "pooled":
        with (
            TransientStorePool(buffers=BUFFERS, buffer_size=segment_size) as pool,
            commitlog.open(path, pool=pool) as log,
        ):
            yield log
    else:
        with commitlog.open(
            path, segment_size=segment_size, prefault=variant == "mapped, pre-faulted"
        ) as log:
            yield log


def _full_speed(log: CommitLog, lines: list[bytes]) -> float:
    """Append all lines in a plain loop; return the seconds."""
    append = log.append
    started = time.perf_counter()
    for line in lines:
        append(line)
    return time.perf_counter() - started


def _constant_rate(log: CommitLog, lines: list[bytes], rate: float) -> array[int]:
    """Append at a constant rate; return the nanoseconds from the time at which each append was due
    to its end. A stall counts for every append that it delays.
    """
    append, clock = log.append, time.perf_counter_ns
    interval_ns = 1e9 / rate
    taken_ns = array("q", bytes(8 * len(lines)))
    started = clock() + _LEAD_NS
    for index, line in enumerate(lines):
        due = started + int(index * interval_ns)
        while clock() < due:
            pass
        append(line)
        taken_ns[index] = clock() - due
    return taken_ns


def _holds(path: str, lines: list[bytes]) -> bool:
    """Return whether a log holds exactly these lines."""
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return all(value == line for value, line in zip_longest(tailer.values(), lines))


class _Bench:
    """Run the variants in turns, so that other work on the machine affects all of them."""

    def __init__(self, job: ComparisonJob, cells: memoryview) -> None:
        self._job, self._cells = job, cells
        self._lines = corpus.load(job.corpus_file)
        self._complete = dict.fromkeys(VARIANTS, True)

    def run(self) -> list[Figures]:
        seconds = {variant: array("d") for variant in VARIANTS}
        for _ in range(ROUNDS):
            for variant in VARIANTS:
                with self._log(variant, self._lines) as log:
                    seconds[variant].append(_full_speed(log, self._lines))
        some = self._lines[: int(self._job.rate * self._job.seconds)]
        latencies = {}
        for variant in VARIANTS:
            with self._log(variant, some) as log:
                latencies[variant] = _constant_rate(log, some, self._job.rate)
        return [
            self._figures(variant, statistics.median(seconds[variant]), latencies[variant])
            for variant in VARIANTS
        ]

    @contextmanager
    def _log(self, variant: str, lines: list[bytes]) -> Iterator[CommitLog]:
        """Provide a new log for one run; check and remove it afterwards."""
        path = os.path.join(self._job.folder, "comparison")
        try:
            with _open(variant, path, self._job.segment_size) as log:
                yield log
            self._complete[variant] &= _holds(path, lines)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        self._cells[MEASURED] += 1

    def _figures(self, variant: str, seconds: float, latencies_ns: Sequence[int]) -> Figures:
        taken_us = np.asarray(latencies_ns) / 1e3
        return Figures(
            variant,
            seconds / len(self._lines) * 1e9,
            sum(map(len, self._lines)) / seconds / 1e6,
            [*np.percentile(taken_us, PERCENTILES).tolist(), float(taken_us.max())],
            self._complete[variant],
        )


def table(figures: Sequence[Figures]) -> list[list[str]]:
    """Return the figures as rows of text."""
    names = [*(f"p{percentile:g}" for percentile in PERCENTILES), "max"]
    heading = ["", "ns an append", "MB/s", *(f"{name} us" for name in names)]
    return [
        heading,
        *(
            [
                row.variant,
                *map("{:,.0f}".format, row.speeds),
                *map("{:,.1f}".format, row.latencies_us),
            ]
            for row in figures
        ),
    ]


def main() -> None:
    """Measure, and answer with the figures."""
    counters, job = task()
    # A garbage collection during an append would count as latency of the log.
    gc.disable()
    tell(
        {
            "figures": [
                asdict(figures) for figures in _Bench(ComparisonJob(**job), counters.cells).run()
            ]
        }
    )


if __name__ == "__main__":
    run(main)
