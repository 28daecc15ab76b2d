"""The processes of a crash run: the writer, which is killed, and the tailing process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import corpus

import commitlog
from commitlog import CommitLog, TransientStorePool

# Cells in shared memory: they hold what a process has done, even after it was killed. Only one
# process writes each cell, by one aligned store.
APPENDED = 0  # lines whose append has returned, counted from the start of the log
POSITION = 1  # the position that the last of those appends returned
READ = 2  # lines that the tailing process has seen
WRITER_READY = 3
READER_READY = 4
GO = 5  # the writer may begin
CELLS = 6
Cells = MutableSequence[int]

BUFFERS = 5
# A stream with a pace has this many bursts a second, each at full speed.
BURSTS_A_SECOND = 20
_GO_TIMEOUT_S = 30.0
# If no record arrives for this time, the tailing process checks whether it is asked for a report.
_QUIET_S = 0.05
SPAWN = multiprocessing.get_context("spawn")


class ChildError(Exception):
    """A process of the demo failed."""


@dataclass(frozen=True)
class Job:
    """A stream: the lines from `first` up to `stop` go to the log, which holds those before.

    `rate` is in lines a second; None is as fast as possible. With `until_killed`, the writer waits
    for the kill at the end.
    """

    log: str
    corpus_file: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    segment_size: int
    first: int
    stop: int
    rate: float | None
    until_killed: bool


@dataclass(frozen=True)
class Report:
    """What the tailing process has read, and the watermarks as it sees them."""

    lines: int
    digest: str
    committed: int
    flushed: int


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a process that never sees Ctrl-C: the parent ends its processes in order."""
    process = SPAWN.Process(target=target, args=arguments, name=target.__name__, daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def end(process: BaseProcess) -> None:
    """Kill a process, if it lives; the next open of its log frees its shared memory."""
    process.kill()
    process.join()


@contextmanager
def pooled_log(job: Job) -> Iterator[CommitLog]:
    """Open the log of a job for appending, with a pool."""
    with (
        TransientStorePool(
            buffers=BUFFERS, buffer_size=job.segment_size, backing=job.backing
        ) as pool,
        commitlog.open(job.log, pool=pool, flush=job.flush) as log,
    ):
        yield log


def writer(job: Job, cells: Cells) -> None:
    """Append the lines of the job, and count each append after it has returned."""
    lines = corpus.load(job.corpus_file)[job.first : job.stop]
    with pooled_log(job) as log:
        cells[WRITER_READY] = 1
        deadline = time.monotonic() + _GO_TIMEOUT_S
        while not cells[GO]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the writer was not started within {_GO_TIMEOUT_S:g} s")
            time.sleep(0.001)
        append, count = log.append, job.first
        portion = max(1, len(lines) if job.rate is None else round(job.rate / BURSTS_A_SECOND))
        started = time.monotonic()
        for index in range(0, len(lines), portion):
            if job.rate is not None:
                time.sleep(max(0.0, started + index / job.rate - time.monotonic()))
            for line in lines[index : index + portion]:
                cells[POSITION] = append(line)
                count += 1
                cells[APPENDED] = count
        while job.until_killed:
            time.sleep(_GO_TIMEOUT_S)


def reader(job: Job, cells: Cells, asked: Connection) -> None:
    """Follow the log, count and hash its lines, and answer each question with a report."""
    digest, seen, question = corpus.RunningHash(), 0, False
    visibility: Literal["committed", "flushed"] = "flushed" if job.flush == "sync" else "committed"
    with commitlog.open(job.log, "r") as log, log.tailer(visibility=visibility) as tailer:
        cells[READER_READY] = 1
        while True:
            for record in tailer.follow(timeout=_QUIET_S):
                digest.add(record.value)
                seen += 1
                cells[READ] = seen
            if question:  # it came before the last read, so that read was up to date
                asked.send(
                    Report(seen, digest.hexdigest(), log.committed_position, log.flushed_position)
                )
                question = False
            elif asked.poll():
                asked.recv()
                question = True
