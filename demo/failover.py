"""Failover: kill a primary while a copy follows it, promote the copy, and continue there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection

import corpus
from crash_run import Setting
from processes import APPENDED, CELLS, SPAWN, Cells, Child, ChildError, Job

import commitlog
from commitlog import CommitLog, Tailer
from commitlog.replication import Replication, follow, promote

# Each append waits for two disks, so one thread appends a part of the corpus.
_LINES = 1000
_EARLIEST, _LATEST = 0.3, 0.7
_SLOW_S = 5.0
_POLL_S = 0.002


def primary(job: Job, cells: Cells, parent: Connection) -> None:
    """Append the lines of the job, each acknowledged by a copy, and count them."""
    rule = Replication(require=1)
    lines = corpus.load(job.corpus_file)[job.first : job.stop]
    with commitlog.open(
        job.log, flush="sync", segment_size=job.segment_size, replicate=rule
    ) as log:
        parent.send(rule.server.url())
        parent.recv()
        for count, line in enumerate(lines, job.first + 1):
            log.append(line)
            cells[APPENDED] = count
        parent.recv()


class Failover:
    """Run a primary in a process of its own and a follower in this one; attributes are those of
    `CrashRun`.
    """

    def __init__(self, log: str, setting: Setting, say: Callable[[str], None]) -> None:
        self.promises: dict[str, bool] = {}
        self.acknowledged = self.survived = self.total = 0
        self._copy, self._setting, self._say = f"{log}-copy", setting, say
        self._lines = setting.lines[:_LINES]
        self._cells: Cells = SPAWN.Array("Q", CELLS, lock=False)  # type: ignore[assignment]
        self._job = Job(
            log,
            setting.corpus_file,
            "anonymous",
            "sync",
            setting.segment_size,
            first=0,
            stop=len(self._lines),
            rate=None,
        )

    def run(self) -> None:
        """Run from the first line to the last promise."""
        with ExitStack() as stack:
            child = Child(primary, self._job, self._cells)
            stack.callback(child.end)
            follower = stack.enter_context(follow(child.answer(), self._copy))
            child.connection.send("go")
            reader = stack.enter_context(commitlog.open(self._copy, "r"))
            tailer = stack.enter_context(reader.tailer())
            self._wait_for_kill(child)
            child.end()
            killed = time.perf_counter()
            if child.process.exitcode != -signal.SIGKILL:
                raise ChildError(f"the primary ended with {child.process.exitcode} before the kill")
            self.acknowledged = self._cells[APPENDED]
            seen = self._read(tailer, 0)
            follower.close()
            epoch = promote(self._copy)
            with commitlog.open(self._copy, flush="sync") as log:
                self._go_on(log, tailer, seen, killed, epoch.number)

    def _wait_for_kill(self, child: Child) -> None:
        """Wait until a random line is acknowledged, or on a slow disk any."""
        target = int(self._setting.random.uniform(_EARLIEST, _LATEST) * len(self._lines))
        slow = time.monotonic() + _SLOW_S
        while self._cells[APPENDED] < (target if time.monotonic() < slow else 1):
            if not child.process.is_alive() or time.monotonic() > slow + 60:
                raise ChildError("the primary does not append; its message, if any, is above")
            time.sleep(_POLL_S)

    def _read(self, tailer: Tailer, count: int) -> int:
        """Read on to the present end, and compare with the corpus from line `count` on."""
        same = True
        for value in tailer.values():
            same = same and count < len(self._lines) and value == self._lines[count]
            count += 1
        text = f"the reader of the copy saw exactly the first {count:,} lines, once and in order"
        self.promises[text] = same
        return count

    def _go_on(self, log: CommitLog, tailer: Tailer, seen: int, killed: float, epoch: int) -> None:
        self.survived = log.count()
        for number, line in enumerate(self._lines[self.survived :]):
            log.append(line)
            if number == 0:
                passed_ms = (time.perf_counter() - killed) * 1e3
                self._say(
                    f"SIGKILL hit the primary when a copy had acknowledged {self.acknowledged:,} "
                    f"lines. The copy holds {self.survived:,}. It was promoted to epoch {epoch}, "
                    f"and its first append returned {passed_ms:,.0f} ms after the kill."
                )
        self.total = self._read(tailer, seen)
        text = f"of {self.acknowledged:,} lines that the copy had acknowledged, none is lost"
        self.promises |= {
            text: self.acknowledged <= self.survived,
            f"the new primary holds all {len(self._lines):,} lines in the end": (
                log.count() == self.total == len(self._lines)
            ),
        }
        self._say(
            f"The same reader, which had seen {seen:,} lines before the promotion, read on at its "
            f"position and has seen {self.total:,}."
        )
