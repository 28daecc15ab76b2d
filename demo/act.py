"""Act: a stream through a pooled log with a live tailing process, a kill in the middle, recovery,
accounting, and the stream's rest.
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
from counters import APPENDED, GO, POSITION, READ, READER_READY, WRITER_READY, Counters
from reader import ReaderJob, Report
from telling import Bars, Telling
from writer import WriterJob, pooled_log

import commitlog

_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 120.0
_POLL_S = 0.005
# The kill falls somewhere in the middle of the stream, so that there is enough on either side of
# it.
_EARLIEST, _LATEST = 0.3, 0.7
# A machine that is slower than the stream's pace is not waited for: the kill comes in time,
# wherever the stream is.
_SLOWNESS = 3.0
# That share of the stream before its target, the killer stops sleeping between looks, so as to
# strike amid appends and not between bursts.
_NEAR = 0.02


@dataclass(frozen=True)
class Act:
    """One of the demo's acts.

    Attributes
    ----------
    name : str
        For its log and its sentences.
    backing, flush : str
        The pool's and the log's option of that name.
    paced : bool
        Whether the stream keeps a pace; else it is as fast as the disk, and goes through a part of
        the corpus.
    title, introduction : str
        What the narrator prints before it begins.
    """

    name: str
    backing: Literal["anonymous", "shm"]
    flush: Literal["async", "sync"]
    paced: bool
    title: str
    introduction: str


@dataclass(frozen=True)
class Setting:
    """What all acts share.

    Attributes
    ----------
    lines : list of bytes
        The corpus.
    corpus_file : str
        The same in a file.
    segment_size : int
        Bytes in a segment and a buffer.
    seconds : float
        How long a stream takes.
    chance : random.Random
        Where the moments of the kills come from.
    """

    lines: list[bytes]
    corpus_file: str
    segment_size: int
    seconds: float
    chance: random.Random


@dataclass(frozen=True)
class Outcome:
    """What an act found.

    Attributes
    ----------
    promises : list of Promise
        Each kept or broken.
    acknowledged, survived, total : int
        Lines whose append had returned at the kill, lines in the log after recovery, lines in it at
        the end.
    """

    promises: list[Promise]
    acknowledged: int
    survived: int
    total: int

    @property
    def lost(self) -> int:
        """Appended lines that the kill took back."""
        return max(0, self.acknowledged - self.survived)

    @property
    def kept(self) -> bool:
        """Whether every promise was."""
        return all(promise.kept for promise in self.promises)


class Performance:
    """An act that is under way.

    Parameters
    ----------
    act : Act
        Which.
    log : str
        The path of its log, which does not exist yet.
    setting : Setting
        What all acts share.
    telling : Telling
        Where to tell it.
    """

    def __init__(self, act: Act, log: str, setting: Setting, telling: Telling) -> None:
        self._act, self._log, self._setting, self._telling = act, log, setting, telling
        self._counters = Counters()
        rate = len(setting.lines) / setting.seconds if act.paced else None
        self._job = WriterJob(
            log,
            setting.corpus_file,
            act.backing,
            act.flush,
            setting.segment_size,
            0,
            len(setting.lines),
            rate,
            True,
        )

    def play(self) -> Outcome:
        """From the first line to the last promise."""
        with ExitStack() as stack:
            stack.callback(self._counters.close)
            stack.callback(clear_away, self._log)
            writer = stack.enter_context(self._start_writer(self._job))
            reader = stack.enter_context(self._start_reader())
            with self._bars(len(self._setting.lines)) as bars:
                self._counters.cells[GO] = 1
                self._await_moment(writer, bars)
                writer.kill()
            acknowledged, position = self._counters.cells[APPENDED], self._counters.cells[POSITION]
            seen = Report(**reader.ask())
            self._telling.say(
                f"SIGKILL hit the writer (process {writer.pid}) when {acknowledged:,} of its "
                "appends had returned."
            )
            survivors, end = self._recover()
            promises = self._promises(acknowledged, position, seen, survivors, end)
            self._tell_losses(acknowledged, survivors)
            total = self._go_on(stack, reader, survivors, promises)
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
            ReaderJob(self._log, "flushed" if self._act.flush == "sync" else "committed").as_json(),
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
                        f"the {child.module} process ended before it was ready: see its message "
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
        return self._telling.bars(appended=total, seen_by_the_tailing_process=total)

    def _show(self, bars: Bars) -> None:
        bars.show(self._counters.cells[APPENDED], self._counters.cells[READ])

    def _await_moment(self, writer: Child, bars: Bars) -> None:
        """Return at the random moment: when the stream has come to a random line, or a random time
        is over.
        """
        share = self._setting.chance.uniform(_EARLIEST, _LATEST)
        target = max(1, int(share * len(self._setting.lines)))
        near = target - _NEAR * len(self._setting.lines)
        deadline = time.monotonic() + share * self._setting.seconds * (
            _SLOWNESS if self._act.paced else 1.0
        )
        last = deadline + _START_TIMEOUT_S
        while (appended := self._counters.cells[APPENDED]) < target and not (
            appended and time.monotonic() > deadline
        ):
            if not writer.running or time.monotonic() > last:
                raise ChildError(
                    "the writer process appends nothing: see its message above, if there is one"
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
        self._telling.say(
            f"Opening the log again recovered it within {opened_ms:,.0f} ms: it holds "
            f"{survivors.lines:,} lines."
        )
        return survivors, end

    @property
    def _promises_all(self) -> bool:
        """Whether the act's options promise every acknowledged line."""
        return self._act.backing == "shm" or self._act.flush == "sync"

    def _promises(
        self, acknowledged: int, position: int, seen: Report, survivors: Survivors, end: int
    ) -> list[Promise]:
        """What the durability table promises for this act's options, and no more."""
        promises = [
            accounting.is_prefix(survivors),
            accounting.committed_kept(seen.committed, end),
            accounting.nothing_invented(acknowledged, survivors),
            accounting.saw_only(seen, survivors, self._setting.lines),
        ]
        if self._promises_all:
            promises.append(accounting.none_lost(acknowledged, survivors))
        if self._act.flush == "sync":
            promises.append(accounting.was_flushed(position, seen.flushed))
        return promises

    def _tell_losses(self, acknowledged: int, survivors: Survivors) -> None:
        lost = acknowledged - survivors.lines
        if lost > 0:
            size = sum(map(len, self._setting.lines[survivors.lines : acknowledged]))
            self._telling.say(
                f"{acknowledged:,} appended - {survivors.lines:,} there = {lost:,} lines "
                f"({size / 1024:,.0f} KiB) lost: they were appended "
                "but not committed, and so only in the memory of the process that was killed."
            )
            return
        luck = "" if self._promises_all else " This time the kill fell right behind a commit."
        # An append that was cut off behind its publishing, and before it could return, may survive
        # too: its caller has had no answer.
        extra = " + 1 that was under way at the kill, whole already," if lost < 0 else ""
        self._telling.say(
            f"{acknowledged:,} appended{extra} - {survivors.lines:,} there = 0 lines lost.{luck}"
        )

    # --- the rest ---------------------------------------------------------------------------------

    def _go_on(
        self, stack: ExitStack, reader: Child, survivors: Survivors, promises: list[Promise]
    ) -> int:
        """A new writer goes on where the log ends; the same tailing process reads on over the
        join.
        """
        lines = self._setting.lines
        stop = (
            len(lines)
            if self._act.paced
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
        self._telling.say(
            f"A new writer went on at line {survivors.lines + 1:,}, where the log ended, up to "
            f"line {stop:,}; the same tailing process "
            f"read on over the join and has seen {seen.lines:,} lines."
        )
        return whole.lines


def clear_away(log: str) -> None:
    """Leave no shared memory behind: opening a log takes over what a killed writer left there, and
    removes the names.
    """
    if os.path.exists(os.path.join(log, "log.json")):
        commitlog.open(log).close()
