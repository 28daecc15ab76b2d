"""The writer process: append the corpus line by line to a pooled log, and count each append that
returned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import corpus
from child import run, task
from counters import APPENDED, GO, POSITION, WRITER_READY, Counters

import commitlog
from commitlog import CommitLog, TransientStorePool

BUFFERS = 5
# A stream with a pace has this many bursts a second, each at full speed.
BURSTS_A_SECOND = 20
_GO_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class WriterJob:
    """The job of the writer.

    Attributes
    ----------
    log, corpus_file : str
        The paths of the log and of the corpus.
    backing, flush : str
        The options of that name of the pool and of the log.
    segment_size : int
        Bytes of a segment and of a buffer.
    first, stop : int
        The range of lines to append; the log holds the lines before `first`.
    rate : float or None
        Lines a second; None is as fast as possible.
    until_killed : bool
        Whether to wait for the kill at the end.
    """

    log: str
    corpus_file: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    segment_size: int
    first: int
    stop: int
    rate: float | None
    until_killed: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the job as an object for JSON."""
        return asdict(self)


@contextmanager
def pooled_log(job: WriterJob) -> Iterator[CommitLog]:
    """Open the log of a job for appending, with a pool."""
    with (
        TransientStorePool(
            buffers=BUFFERS, buffer_size=job.segment_size, backing=job.backing
        ) as pool,
        commitlog.open(job.log, pool=pool, flush=job.flush) as log,
    ):
        yield log


def _bursts(lines: list[bytes], rate: float | None) -> Iterator[list[bytes]]:
    """Yield the lines in bursts, each at its time."""
    portion = len(lines) if rate is None else max(1, round(rate / BURSTS_A_SECOND))
    started = time.monotonic()
    for index in range(0, len(lines), max(1, portion)):
        if rate is not None:
            time.sleep(max(0.0, started + index / rate - time.monotonic()))
        yield lines[index : index + portion]


def stream(log: CommitLog, job: WriterJob, counters: Counters) -> None:
    """Append the lines of the job, and count each append after it has returned."""
    append, cells = log.append, counters.cells
    count = job.first
    for burst in _bursts(corpus.load(job.corpus_file)[job.first : job.stop], job.rate):
        for line in burst:
            position = append(line)
            cells[POSITION] = position
            count += 1
            cells[APPENDED] = count


def main() -> None:
    """Open the log, wait for the start, and stream."""
    counters, job_json = task()
    job = WriterJob(**job_json)
    with pooled_log(job) as log:
        counters.cells[WRITER_READY] = 1
        deadline = time.monotonic() + _GO_TIMEOUT_S
        while not counters.cells[GO]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the writer was not started within {_GO_TIMEOUT_S:g} s")
            time.sleep(0.001)
        stream(log, job, counters)
        while job.until_killed:
            time.sleep(_GO_TIMEOUT_S)


if __name__ == "__main__":
    run(main)
