"""Crash run: stream lines into a pooled log with a live tailing process, kill the writer, recover,
compare, and stream the rest.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Literal

import accounting
from accounting import Promise, Survivors, read_back
from processes import (
    APPENDED,
    CELLS,
    GO,
    POSITION,
    READ,
    READER_READY,
    SPAWN,
    WRITER_READY,
    Cells,
    ChildError,
    Job,
    Report,
    end,
    pooled_log,
    reader,
    start,
    writer,
)

import commitlog

if TYPE_CHECKING:
    from console import Console, Show

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
    """The options of one crash run, and the text before it.

    If the stream is not paced, it is as fast as the disk, and takes a part of the corpus.
    """

    name: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    paced: bool
    title: str
    introduction: str


@dataclass(frozen=True)
class Setting:
    """The parameters that all scenarios share; `random` chooses the times of the kills."""

    lines: list[bytes]
    corpus_file: str
    segment_size: int
    seconds: float
    random: random.Random


@dataclass(frozen=True)
class Outcome:
    """The promises of a crash run; lines acknowledged before the kill, and in the log after
    recovery and at the end.
    """

    promises: list[Promise]
    acknowledged: int
    survived: int
    total: int

    @property
    def lost(self) -> int:
        """Return how many acknowledged lines the kill lost."""
        return max(0, self.acknowledged - self.survived)

    @property
    def kept(self) -> bool:
        """Return whether every promise was kept."""
        return all(promise.kept for promise in self.promises)


class CrashRun:
    """Run one scenario, with a log at a path that does not exist yet."""

    def __init__(self, scenario: Scenario, log: str, setting: Setting, console: Console) -> None:
        self._scenario, self._log, self._setting, self._console = scenario, log, setting, console
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
            until_killed=True,
        )

    def run(self) -> Outcome:
        """Run the scenario from the first line to the last promise."""
        with ExitStack() as stack:
            stack.callback(release_shared_memory, self._log)
            first = self._start(stack, writer, WRITER_READY, self._job)
            ours, theirs = SPAWN.Pipe()
            self._start(stack, reader, READER_READY, self._job, theirs)
            with self._bars(len(self._setting.lines)) as show:
                self._cells[GO] = 1
                self._wait_for_kill(first, show)
                end(first)
            if first.exitcode != -signal.SIGKILL:
                raise ChildError(f"the writer ended with {first.exitcode} before the kill")
            acknowledged, position = self._cells[APPENDED], self._cells[POSITION]
            seen = _ask(ours)
            self._console.print(
                f"SIGKILL hit the writer (process {first.pid}) when {acknowledged:,} of its "
                "appends had returned."
            )
            survivors, log_end = self._recover()
            promises = self._promises(acknowledged, position, seen, survivors, log_end)
            self._report_losses(acknowledged, survivors)
            total = self._stream_rest(stack, ours, survivors, promises)
        return Outcome(promises, acknowledged, survivors.lines, total)

    # --- the stream -------------------------------------------------------------------------------

    def _start(
        self,
        stack: ExitStack,
        target: Callable[..., None],
        ready: int,
        job: Job,
        *arguments: Any,
    ) -> BaseProcess:
        """Start a process and wait until it is ready; the stack ends it."""
        self._cells[ready] = 0
        child = start(target, job, self._cells, *arguments)
        stack.callback(self._end, child, ready)
        if not self._is_ready(child, ready):
            raise ChildError(
                f"the {child.name} process was not ready within {_START_TIMEOUT_S:g} s; if it has "
                "printed a message, it is above"
            )
        return child

    def _end(self, child: BaseProcess, ready: int) -> None:
        """Kill a process once it is ready: before that, the log does not know the writer's shared
        memory, and no open would delete it.
        """
        self._is_ready(child, ready)
        end(child)

    def _is_ready(self, child: BaseProcess, ready: int) -> bool:
        """Wait until a process is ready; return whether it is."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._cells[ready]:
            if not child.is_alive() or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _bars(self, total: int) -> AbstractContextManager[Show]:
        return self._console.bars(appended=total, seen_by_the_tailing_process=total)

    def _show(self, show: Show) -> None:
        show(self._cells[APPENDED], self._cells[READ])

    def _wait_for_kill(self, child: BaseProcess, show: Show) -> None:
        """Wait until the stream has reached a random line, or a random time has passed."""
        share = self._setting.random.uniform(_EARLIEST, _LATEST)
        target = max(1, int(share * len(self._setting.lines)))
        near = target - _NEAR * len(self._setting.lines)
        deadline = time.monotonic() + share * self._setting.seconds * (
            _SLOWNESS if self._scenario.paced else 1.0
        )
        last = deadline + _START_TIMEOUT_S
        while (appended := self._cells[APPENDED]) < target and not (
            appended and time.monotonic() > deadline
        ):
            if not child.is_alive() or time.monotonic() > last:
                raise ChildError(
                    "the writer process does not append; if it has printed a message, it is above"
                )
            if appended < near:
                self._show(show)
                time.sleep(_POLL_S)
        self._show(show)

    # --- recovery ---------------------------------------------------------------------------------

    def _recover(self) -> tuple[Survivors, int]:
        """Open the log again, which recovers it, and compare it with the corpus."""
        started = time.perf_counter()
        with pooled_log(self._job) as log:
            opened_ms = (time.perf_counter() - started) * 1e3
            survivors, end = read_back(log, self._setting.lines), log.committed_position
        self._console.print(
            f"Opening the log again recovered it within {opened_ms:,.0f} ms: it holds "
            f"{survivors.lines:,} lines."
        )
        return survivors, end

    @property
    def _promises_all(self) -> bool:
        """Return whether the options promise every acknowledged line."""
        return self._scenario.backing == "shm" or self._scenario.flush == "sync"

    def _promises(
        self, acknowledged: int, position: int, seen: Report, survivors: Survivors, end: int
    ) -> list[Promise]:
        """Return what the durability table promises for the options of the scenario."""
        promises = [
            accounting.is_prefix(survivors),
            accounting.committed_kept(seen.committed, end),
            accounting.nothing_invented(acknowledged, survivors),
            accounting.saw_only(seen, survivors, self._setting.lines),
        ]
        if self._promises_all:
            promises.append(accounting.none_lost(acknowledged, survivors))
        if self._scenario.flush == "sync":
            promises.append(accounting.was_flushed(position, seen.flushed))
        return promises

    def _report_losses(self, acknowledged: int, survivors: Survivors) -> None:
        lost = acknowledged - survivors.lines
        if lost > 0:
            size = sum(map(len, self._setting.lines[survivors.lines : acknowledged]))
            self._console.print(
                f"{acknowledged:,} appended - {survivors.lines:,} in the log = {lost:,} lines "
                f"({size / 1024:,.0f} KiB) lost. They were not committed, so they were only in the "
                "memory of the killed process."
            )
            return
        luck = "" if self._promises_all else " The kill came right after a commit."
        # An append that was published but had not returned at the kill may survive, too.
        extra = " + 1 that was published but had not returned" if lost < 0 else ""
        self._console.print(
            f"{acknowledged:,} appended{extra} - {survivors.lines:,} in the log = 0 lines "
            f"lost.{luck}"
        )

    # --- the rest ---------------------------------------------------------------------------------

    def _stream_rest(
        self, stack: ExitStack, tailing: Connection, survivors: Survivors, promises: list[Promise]
    ) -> int:
        """Start a new writer where the log ends, while the same tailing process reads on."""
        lines = self._setting.lines
        stop = (
            len(lines)
            if self._scenario.paced
            else min(len(lines), survivors.lines + survivors.lines // 2)
        )
        job = replace(self._job, first=survivors.lines, stop=stop, until_killed=False)
        self._cells[APPENDED] = survivors.lines
        second = self._start(stack, writer, WRITER_READY, job)
        with self._bars(stop) as show:
            deadline = time.monotonic() + _END_TIMEOUT_S
            while second.is_alive() and time.monotonic() < deadline:
                self._show(show)
                time.sleep(_POLL_S)
        if second.exitcode != 0:
            raise ChildError(
                f"the second writer did not succeed within {_END_TIMEOUT_S:g} s; if it has printed "
                "a message, it is above"
            )
        seen = _ask(tailing)
        with commitlog.open(self._log, "r") as log:
            whole = read_back(log, lines)
        promises += [
            accounting.is_prefix(whole),
            accounting.is_complete(whole, stop),
            accounting.saw_all(seen, whole, lines),
        ]
        self._console.print(
            f"A new writer continued at line {survivors.lines + 1:,}, where the log ended, up to "
            f"line {stop:,}. The same tailing process read on and has seen {seen.lines:,} lines."
        )
        return whole.lines


def _ask(tailing: Connection) -> Report:
    """Ask the tailing process for a report."""
    tailing.send("report")
    if not tailing.poll(_END_TIMEOUT_S):
        raise ChildError(f"the tailing process did not answer within {_END_TIMEOUT_S:g} s")
    report: Report = tailing.recv()
    return report


def release_shared_memory(log: str) -> None:
    """Remove the shared memory of a killed writer: opening the log recovers and deletes it."""
    if os.path.exists(os.path.join(log, "log.json")):
        commitlog.open(log).close()
