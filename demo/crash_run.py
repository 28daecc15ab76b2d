"""Crash run: stream lines into a pooled log with a live tailing process, kill the writer, recover,
compare, and stream the rest.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from processes import (
    APPENDED,
    CELLS,
    POSITION,
    READ,
    SPAWN,
    Cells,
    Child,
    ChildError,
    Job,
    Lines,
    Report,
    pooled_log,
    reader,
    writer,
)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import commitlog
from commitlog import CommitLog

_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 120.0
_POLL_S = 0.005
# The kill comes in the middle of the stream, as a share of it.
_EARLIEST, _LATEST = 0.3, 0.7
# If the machine is slower than the pace of the stream by this factor, the kill comes early.
_SLOWNESS = 3.0
# From this share of the stream before the target, the parent polls without a pause: the kill is to
# come during a burst of appends.
_NEAR = 0.02


@dataclass(frozen=True)
class Scenario:
    """The options of one crash run, and the text before it."""

    name: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    title: str
    introduction: str

    @property
    def paced(self) -> bool:
        """Return whether the stream has a pace. Otherwise it is as fast as the disk, and takes a
        part of the corpus.
        """
        return self.flush != "sync"

    @property
    def keeps_all(self) -> bool:
        """Return whether the options promise every acknowledged line."""
        return self.backing == "shm" or self.flush == "sync"


@dataclass(frozen=True)
class Setting:
    """The parameters that all scenarios share; `random` chooses the times of the kills."""

    lines: list[bytes]
    corpus_file: str
    segment_size: int
    seconds: float
    random: random.Random


class CrashRun:
    """Run one scenario, with a log at a path that does not exist yet.

    Attributes
    ----------
    promises : dict of str to bool
        What the durability table promises for the options of the scenario, as statements, and
        whether each is true.
    acknowledged, survived, total : int
        Lines whose append returned before the kill, and in the log after recovery and at the end.
    """

    def __init__(
        self,
        scenario: Scenario,
        log: str,
        setting: Setting,
        say: Callable[[str], None],
        console: Console,
    ) -> None:
        self.promises: dict[str, bool] = {}
        self.acknowledged = self.survived = self.total = 0
        self._scenario, self._log, self._setting = scenario, log, setting
        self._say, self._console = say, console
        self._cells: Cells = SPAWN.Array("Q", CELLS, lock=False)  # type: ignore[assignment]
        rate = len(setting.lines) / setting.seconds if scenario.paced else None
        self._job = Job(
            log,
            setting.corpus_file,
            scenario.backing,
            scenario.flush,
            setting.segment_size,
            first=0,
            stop=len(setting.lines),
            rate=rate,
        )

    def run(self) -> None:
        """Run the scenario from the first line to the last promise."""
        with ExitStack() as stack:
            stack.callback(release_shared_memory, self._log)
            first = self._start(stack, writer, self._job)
            tailing = self._start(stack, reader, self._job)
            first.connection.send("go")
            self._wait_for_kill(first)
            first.end()
            if first.process.exitcode != -signal.SIGKILL:
                raise ChildError(f"the writer ended with {first.process.exitcode} before the kill")
            self.acknowledged, position = self._cells[APPENDED], self._cells[POSITION]
            seen = self._ask(tailing)
            self._say(
                f"SIGKILL hit the writer (process {first.process.pid}) when {self.acknowledged:,} "
                "of its appends had returned."
            )
            self._recover(seen, position)
            self._stream_rest(stack, tailing)

    def _start(self, stack: ExitStack, target: Callable[..., None], job: Job) -> Child:
        """Start a process and wait until it is ready; the stack ends it."""
        child = Child(target, job, self._cells)
        stack.callback(child.end)
        child.answer()
        return child

    @staticmethod
    def _ask(tailing: Child) -> Report:
        tailing.connection.send("report")
        report: Report = tailing.answer()
        return report

    # --- the stream -------------------------------------------------------------------------------

    @contextmanager
    def _bars(self, total: int) -> Iterator[Callable[[], None]]:
        """Yield a function that shows how much of the stream is done; on a terminal only."""
        columns = (TextColumn("  {task.description:<28}"), BarColumn(), MofNCompleteColumn())
        with Progress(
            *columns,
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            tasks = {
                cell: progress.add_task(name, total=total)
                for cell, name in ((APPENDED, "appended"), (READ, "seen by the tailing process"))
            }

            def show() -> None:
                for cell, task in tasks.items():
                    progress.update(task, completed=self._cells[cell])

            yield show

    def _wait_for_kill(self, child: Child) -> None:
        """Wait until the stream has reached a random line, or a random time has passed."""
        count, seconds = len(self._setting.lines), self._setting.seconds
        share = self._setting.random.uniform(_EARLIEST, _LATEST)
        target = max(1, int(share * count))
        deadline = time.monotonic() + share * seconds * (_SLOWNESS if self._scenario.paced else 1.0)
        last = deadline + _START_TIMEOUT_S
        with self._bars(count) as show:
            while (appended := self._cells[APPENDED]) < target and not (
                appended and time.monotonic() > deadline
            ):
                if not child.process.is_alive() or time.monotonic() > last:
                    raise ChildError(
                        "the writer process does not append; if it has printed a message, it is "
                        "above"
                    )
                if appended < target - _NEAR * count:
                    show()
                    time.sleep(_POLL_S)

    # --- recovery ---------------------------------------------------------------------------------

    def _recover(self, seen: Report, position: int) -> None:
        """Open the log again, which recovers it, and compare it with the corpus."""
        started = time.perf_counter()
        with pooled_log(self._job) as log:
            opened_ms = (time.perf_counter() - started) * 1e3
            found, end = self._read_back(log), log.committed_position
        self.survived = found.count
        self._say(
            f"Opening the log again recovered it within {opened_ms:,.0f} ms: it holds "
            f"{found.count:,} lines."
        )
        self.promises |= {
            "the log holds nothing that was not appended": found.count <= self.acknowledged + 1,
            f"everything committed (up to position {seen.committed:,}) survived": (
                end >= seen.committed
            ),
            f"the tailing process saw {seen.lines.count:,} lines, and the log holds all of them": (
                seen.lines.first_difference is None and seen.lines.count <= found.count
            ),
        }
        if self._scenario.keeps_all:
            text = f"of {self.acknowledged:,} appends that had returned, none is lost"
            self.promises[text] = found.count >= self.acknowledged
        if self._scenario.flush == "sync":
            text = f"the last append (position {position:,}) was flushed before it returned"
            self.promises[text] = seen.flushed > position
        self._report_losses()

    def _read_back(self, log: CommitLog) -> Lines:
        """Read a log from its first record to its end: it holds a prefix of the corpus."""
        lines, count, difference = self._setting.lines, 0, None
        with log.tailer() as tailer:
            for value in tailer.values():
                if difference is None and (count >= len(lines) or value != lines[count]):
                    difference = count
                count += 1
        where = "" if difference is None else f" (line {difference} differs)"
        text = f"the log holds exactly the first {count:,} lines of the corpus, byte for byte"
        self.promises[text + where] = difference is None
        return Lines(count, difference)

    def _report_losses(self) -> None:
        lost = self.acknowledged - self.survived
        if lost > 0:
            size = sum(map(len, self._setting.lines[self.survived : self.acknowledged]))
            self._say(
                f"{self.acknowledged:,} appended - {self.survived:,} in the log = {lost:,} lines "
                f"({size / 1024:,.0f} KiB) lost. They were not committed, so they were only in the "
                "memory of the killed process."
            )
            return
        luck = "" if self._scenario.keeps_all else " The kill came right after a commit."
        # An append that was published but had not returned at the kill may survive, too.
        extra = " + 1 that was published but had not returned" if lost < 0 else ""
        self._say(
            f"{self.acknowledged:,} appended{extra} - {self.survived:,} in the log = 0 lines "
            f"lost.{luck}"
        )

    # --- the rest ---------------------------------------------------------------------------------

    def _stream_rest(self, stack: ExitStack, tailing: Child) -> None:
        """Start a new writer where the log ends, while the same tailing process reads on."""
        stop = len(self._setting.lines)
        if not self._scenario.paced:
            stop = min(stop, self.survived + self.survived // 2)
        self._cells[APPENDED] = self.survived
        second = self._start(stack, writer, replace(self._job, first=self.survived, stop=stop))
        second.connection.send("go")
        second.connection.send("close")
        with self._bars(stop) as show:
            deadline = time.monotonic() + _END_TIMEOUT_S
            while second.process.is_alive() and time.monotonic() < deadline:
                show()
                time.sleep(_POLL_S)
        if second.process.exitcode != 0:
            raise ChildError(
                f"the second writer did not succeed within {_END_TIMEOUT_S:g} s; if it has printed "
                "a message, it is above"
            )
        seen = self._ask(tailing)
        with commitlog.open(self._log, "r") as log:
            self.total = self._read_back(log).count
        self.promises |= {
            f"the log holds all {stop:,} lines in the end": self.total == stop,
            f"the tailing process saw all {self.total:,} lines, once and in order": (
                seen.lines == Lines(self.total, None)
            ),
        }
        self._say(
            f"A new writer continued at line {self.survived + 1:,}, where the log ended, up to "
            f"line {stop:,}. The same tailing process read on and has seen {seen.lines.count:,} "
            "lines."
        )


def release_shared_memory(log: str) -> None:
    """Remove the shared memory of a killed writer: opening the log recovers and deletes it."""
    if os.path.exists(os.path.join(log, "log.json")):
        commitlog.open(log).close()
