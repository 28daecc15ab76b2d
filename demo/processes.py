"""The processes of a crash run: the writer, which is killed, and the tailing process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import corpus

import commitlog
from commitlog import CommitLog, TransientStorePool

# Cells in shared memory: they hold what a process has done, even after it was killed. Only one
# process writes each cell, by one aligned store.
APPENDED = 0  # lines whose append has returned, counted from the start of the log
POSITION = 1  # the position that the last of those appends returned
READ = 2  # lines that the tailing process has seen
CELLS = 3
Cells = MutableSequence[int]

BUFFERS = 5
# A stream with a pace has this many bursts a second, each at full speed.
BURSTS_A_SECOND = 20
ANSWER_TIMEOUT_S = 60.0
# If no record arrives for this time, the tailing process checks whether it is asked for a report.
_QUIET_S = 0.05
SPAWN = multiprocessing.get_context("spawn")


class ChildError(Exception):
    """A process of the demo failed."""


@dataclass(frozen=True)
class Job:
    """A stream: the lines from `first` up to `stop` go to the log, which holds those before.

    `rate` is in lines a second; None is as fast as possible.
    """

    log: str
    corpus_file: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    segment_size: int
    first: int
    stop: int
    rate: float | None


@dataclass(frozen=True)
class Lines:
    """The lines that were read from a log, and the first that differs from the corpus."""

    count: int
    first_difference: int | None


@dataclass(frozen=True)
class Report:
    """What the tailing process has read, and the watermarks as it sees them."""

    lines: Lines
    committed: int
    flushed: int


class Child:
    """A process that is ready once it has sent something. It never sees Ctrl-C: the parent ends its
    processes in order.
    """

    def __init__(self, target: Callable[..., None], job: Job, cells: Cells) -> None:
        self.connection, theirs = SPAWN.Pipe()
        arguments = (job, cells, theirs)
        self.process = SPAWN.Process(
            target=target, args=arguments, name=target.__name__, daemon=True
        )
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._ready = False

    def answer(self) -> Any:
        """Wait for the next message of the process."""
        try:
            if self.connection.poll(ANSWER_TIMEOUT_S):
                found = self.connection.recv()
                self._ready = True
                return found
        except EOFError:
            pass
        raise ChildError(
            f"the {self.process.name} process did not answer; if it has printed a message, it is "
            "above"
        )

    def end(self) -> None:
        """Kill the process once it is ready. Before that, the log does not know the writer's shared
        memory, and no open would delete it.
        """
        if not self._ready:
            self.connection.poll(ANSWER_TIMEOUT_S)
        self.process.kill()
        self.process.join()


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


def writer(job: Job, cells: Cells, parent: Connection) -> None:
    """Append the lines of the job, and count each append after it has returned. Then close the log
    if the parent says so, and not before.
    """
    lines = corpus.load(job.corpus_file)[job.first : job.stop]
    with pooled_log(job) as log:
        parent.send("ready")
        parent.recv()
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
        parent.recv()


def reader(job: Job, cells: Cells, parent: Connection) -> None:
    """Follow the log, compare its records with the corpus, and answer each question by a report."""
    lines = corpus.load(job.corpus_file)
    seen, difference, asked = 0, None, False
    visibility: Literal["committed", "flushed"] = "flushed" if job.flush == "sync" else "committed"
    with commitlog.open(job.log, "r") as log, log.tailer(visibility=visibility) as tailer:
        parent.send("ready")
        while True:
            for record in tailer.follow(timeout=_QUIET_S):
                if difference is None and (seen >= len(lines) or record.value != lines[seen]):
                    difference = seen
                seen += 1
                cells[READ] = seen
            if asked:  # the question came before the last read, so that read was up to date
                found = Lines(seen, difference)
                parent.send(Report(found, log.committed_position, log.flushed_position))
                asked = False
            elif parent.poll():
                parent.recv()
                asked = True
