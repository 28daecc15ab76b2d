"""Crash run: stream lines into a pooled log with a live tailing process, kill the writer, recover,
compare, and stream the rest.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Literal

import accounting
from accounting import Promise, Survivors, read_back
from child import Child, ChildError
from console import Bars, Console
from counters import APPENDED, GO, POSITION, READ, READER_READY, WRITER_READY, Counters
from reader import ReaderJob, Report
from writer import WriterJob, pooled_log

import commitlog

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
    """The options of one crash run.

    Attributes
    ----------
    name : str
        The name of its log.
    backing, flush : str
        The options of that name of the pool and of the log.
    paced : bool
        Whether the stream keeps a pace. If not, it is as fast as the disk, and takes a part of the
        corpus.
    title, introduction : str
        The text before the run.
    """

    name: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    paced: bool
    title: str
    introduction: str


@dataclass(frozen=True)
class Setting:
    """The parameters that all scenarios share.

    Attributes
    ----------
    lines : list of bytes
        The corpus.
    corpus_file : str
        The file with the corpus.
    segment_size : int
        Bytes of a segment and of a buffer.
    seconds : float
        The duration of a stream.
    random : random.Random
        Chooses the times of the kills.
    """

    lines: list[bytes]
    corpus_file: str
    segment_size: int
    seconds: float
    random: random.Random


@dataclass(frozen=True)
class Outcome:
    """The result of a crash run.

    Attributes
    ----------
    promises : list of Promise
        The promises, kept or broken.
    acknowledged, survived, total : int
        Lines whose append had returned before the kill, lines in the log after recovery, and lines
        in the log at the end.
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
    """Run one scenario.

    Parameters
    ----------
    scenario : Scenario
        The options.
    log : str
        The path of its log, which does not exist yet.
    setting : Setting
        The parameters that all scenarios share.
    console : Console
        The output.
    """

    def __init__(self, scenario: Scenario, log: str, setting: Setting, console: Console) -> None:
        self._scenario, self._log, self._setting, self._console = scenario, log, setting, console
        self._counters = Counters()
        rate = len(setting.lines) / setting.seconds if scenario.paced else None
        self._job = WriterJob(
            log,
            setting.corpus_file,
            scenario.backing,
            scenario.flush,
            setting.segment_size,
            0,
            len(setting.lines),
            rate,
            True,
        )

    def run(self) -> Outcome:
        """Run the scenario from the first line to the last promise."""
        with ExitStack() as stack:
            stack.callback(self._counters.close)
            stack.callback(release_shared_memory, self._log)
            writer = stack.enter_context(self._start_writer(self._job))
            reader = stack.enter_context(self._start_reader())
            with self._bars(len(self._setting.lines)) as bars:
                self._counters.cells[GO] = 1
                self._wait_for_kill(writer, bars)
                writer.kill()
            acknowledged, position = self._counters.cells[APPENDED], self._counters.cells[POSITION]
            seen = Report(**reader.ask())
            self._console.print(
                f"SIGKILL hit the writer (process {writer.pid}) when {acknowledged:,} of its "
                "appends had returned."
            )
            survivors, end = self._recover()
            promises = self._promises(acknowledged, position, seen, survivors, end)
            self._report_losses(acknowledged, survivors)
            total = self._stream_rest(stack, reader, survivors, promises)
        return Outcome(promises, acknowledged, survivors.lines, total)

    # --- the stream -------------------------------------------------------------------------------

    def _start_writer(self, job: WriterJob) -> Child:
        self._counters.cells[WRITER_READY] = 0
        writer = Child("writer", job.as_json(), self._counters)
        self._await(writer, lambda: bool(self._counters.cells[WRITER_READY]))
        return writer

    def _start_reader(self) -> Child:
        reader = Child(
            "reader",
            ReaderJob(
                self._log, "flushed" if self._scenario.flush == "sync" else "committed"
            ).as_json(),
            self._counters,
        )
        self._await(reader, lambda: bool(self._counters.cells[READER_READY]))
        return reader

    def _await(self, child: Child, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        try:
            while not condition():
                if not child.running:
                    raise ChildError(
                        f"the {child.module} process ended before it was ready; its message is "
                        "above"
                    )
                if time.monotonic() > deadline:
                    raise ChildError(
                        f"the {child.module} process was not ready after {_START_TIMEOUT_S:g} s"
                    )
                time.sleep(_POLL_S)
        except BaseException:
            child.end()
            raise

    def _bars(self, total: int) -> AbstractContextManager[Bars]:
        return self._console.bars(appended=total, seen_by_the_tailing_process=total)

    def _show(self, bars: Bars) -> None:
        bars.show(self._counters.cells[APPENDED], self._counters.cells[READ])

    def _wait_for_kill(self, writer: Child, bars: Bars) -> None:
        """Wait until the stream has reached a random line, or a random time has passed."""
        share = self._setting.random.uniform(_EARLIEST, _LATEST)
        target = max(1, int(share * len(self._setting.lines)))
        near = target - _NEAR * len(self._setting.lines)
        deadline = time.monotonic() + share * self._setting.seconds * (
            _SLOWNESS if self._scenario.paced else 1.0
        )
        last = deadline + _START_TIMEOUT_S
        while (appended := self._counters.cells[APPENDED]) < target and not (
            appended and time.monotonic() > deadline
        ):
            if not writer.running or time.monotonic() > last:
                raise ChildError(
                    "the writer process does not append; if it has printed a message, it is above"
                )
            if appended < near:
                self._show(bars)
                time.sleep(_POLL_S)
        self._show(bars)

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
        self, stack: ExitStack, reader: Child, survivors: Survivors, promises: list[Promise]
    ) -> int:
        """Start a new writer where the log ends, while the same tailing process reads on."""
        lines = self._setting.lines
        stop = (
            len(lines)
            if self._scenario.paced
            else min(len(lines), survivors.lines + survivors.lines // 2)
        )
        job = replace(self._job, first=survivors.lines, stop=stop, until_killed=False)
        self._counters.cells[APPENDED] = survivors.lines
        writer = stack.enter_context(self._start_writer(job))
        with self._bars(stop) as bars:
            deadline = time.monotonic() + _END_TIMEOUT_S
            while writer.running and time.monotonic() < deadline:
                self._show(bars)
                time.sleep(_POLL_S)
        writer.expect_success(1.0)
        seen = Report(**reader.ask())
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


def release_shared_memory(log: str) -> None:
    """Remove the shared memory of a killed writer: opening the log recovers and deletes it."""
    if os.path.exists(os.path.join(log, "log.json")):
        commitlog.open(log).close()
