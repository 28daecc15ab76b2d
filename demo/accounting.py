"""Accounting: every line in the log against the corpus, and every promise as something that was
kept or broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpus import RunningHash
from reader import Report

from commitlog import CommitLog


@dataclass(frozen=True)
class Promise:
    """One thing that the log promises, and whether it kept it.

    Attributes
    ----------
    text : str
        The promise, as a statement.
    kept : bool
        Whether it came out true.
    """

    text: str
    kept: bool


@dataclass(frozen=True)
class Survivors:
    """What a log holds, compared with the corpus.

    Attributes
    ----------
    lines : int
        Records in the log.
    first_difference : int or None
        The first line, counted from 0, that is not the corpus's line of that number; None where
        there is none.
    """

    lines: int
    first_difference: int | None

    @property
    def exact(self) -> bool:
        """Whether it is a prefix of the corpus, in order, byte for byte."""
        return self.first_difference is None


def read_back(log: CommitLog, lines: list[bytes]) -> Survivors:
    """Read a log from its first record to its end and compare each with its line."""
    count, first_difference = 0, None
    with log.tailer() as tailer:
        for value in tailer.values():
            if first_difference is None and (count >= len(lines) or value != lines[count]):
                first_difference = count
            count += 1
    return Survivors(count, first_difference)


def saw_only(report: Report, survivors: Survivors, lines: list[bytes]) -> Promise:
    """The tailing process has seen nothing that is not in the log."""
    there = (
        report.lines <= survivors.lines
        and report.digest == RunningHash(lines[: report.lines]).hexdigest()
    )
    return Promise(
        f"the tailing process saw {report.lines:,} lines, and all of them are there", there
    )


def saw_all(report: Report, survivors: Survivors, lines: list[bytes]) -> Promise:
    """The tailing process has seen the whole log, once and in order."""
    whole = (
        report.lines == survivors.lines
        and report.digest == RunningHash(lines[: report.lines]).hexdigest()
    )
    return Promise(
        f"the tailing process saw all {survivors.lines:,} lines, once and in order", whole
    )


def is_prefix(survivors: Survivors) -> Promise:
    """What survived is what was appended first, without a gap or a foreign byte."""
    where = "" if survivors.exact else f" (line {survivors.first_difference} differs)"
    return Promise(
        f"the log holds exactly the first {survivors.lines:,} lines of the corpus, byte for "
        f"byte{where}",
        survivors.exact,
    )


def is_complete(survivors: Survivors, lines: int) -> Promise:
    """In the end the log holds everything that was streamed, from all writers."""
    return Promise(f"the log holds all {lines:,} lines in the end", survivors.lines == lines)


def none_lost(acknowledged: int, survivors: Survivors) -> Promise:
    """Every append that returned is in the log."""
    return Promise(
        f"of {acknowledged:,} appends that had returned, none is lost",
        survivors.lines >= acknowledged,
    )


def nothing_invented(acknowledged: int, survivors: Survivors) -> Promise:
    """The log does not hold more than the appends that returned and the one that was under way."""
    return Promise(
        "the log holds nothing that was not appended", survivors.lines <= acknowledged + 1
    )


def committed_kept(committed: int, end: int) -> Promise:
    """What was committed when the writer died survived."""
    return Promise(
        f"all that was committed (up to position {committed:,}) is there", end >= committed
    )


def was_flushed(position: int, flushed: int) -> Promise:
    """The last append that returned had been flushed before it did."""
    return Promise(
        f"the last append that returned (position {position:,}) had been flushed",
        flushed > position,
    )
