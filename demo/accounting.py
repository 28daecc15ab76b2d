"""Accounting: compare every line in the log with the corpus, and judge every promise of the log."""

from __future__ import annotations

from dataclasses import dataclass

from corpus import RunningHash
from processes import Report

from commitlog import CommitLog


@dataclass(frozen=True)
class Promise:
    """A promise of the log, as a statement, and whether it is true."""

    text: str
    kept: bool


@dataclass(frozen=True)
class Survivors:
    """The lines that a log holds after a crash, and the first that differs from the corpus."""

    lines: int
    first_difference: int | None


def read_back(log: CommitLog, lines: list[bytes]) -> Survivors:
    """Read a log from its first record to its end, and compare each record with its line."""
    count, first_difference = 0, None
    with log.tailer() as tailer:
        for value in tailer.values():
            if first_difference is None and (count >= len(lines) or value != lines[count]):
                first_difference = count
            count += 1
    return Survivors(count, first_difference)


def _is_what_was_read(report: Report, lines: list[bytes]) -> bool:
    return report.digest == RunningHash(lines[: report.lines]).hexdigest()


def saw_only(report: Report, survivors: Survivors, lines: list[bytes]) -> Promise:
    """Promise that the tailing process saw nothing that is not in the log."""
    return Promise(
        f"the tailing process saw {report.lines:,} lines, and the log holds all of them",
        report.lines <= survivors.lines and _is_what_was_read(report, lines),
    )


def saw_all(report: Report, survivors: Survivors, lines: list[bytes]) -> Promise:
    """Promise that the tailing process saw the whole log, once and in order."""
    return Promise(
        f"the tailing process saw all {survivors.lines:,} lines, once and in order",
        report.lines == survivors.lines and _is_what_was_read(report, lines),
    )


def is_prefix(survivors: Survivors) -> Promise:
    """Promise that the survivors are a prefix of the appends, without a gap or a foreign byte."""
    exact = survivors.first_difference is None
    where = "" if exact else f" (line {survivors.first_difference} differs)"
    return Promise(
        f"the log holds exactly the first {survivors.lines:,} lines of the corpus, byte for "
        f"byte{where}",
        exact,
    )


def is_complete(survivors: Survivors, lines: int) -> Promise:
    """Promise that at the end, the log holds the appends of all writers."""
    return Promise(f"the log holds all {lines:,} lines in the end", survivors.lines == lines)


def none_lost(acknowledged: int, survivors: Survivors) -> Promise:
    """Promise that every append that returned is in the log."""
    return Promise(
        f"of {acknowledged:,} appends that had returned, none is lost",
        survivors.lines >= acknowledged,
    )


def nothing_invented(acknowledged: int, survivors: Survivors) -> Promise:
    """Promise that the log holds at most the appends that returned and one that had not yet."""
    return Promise(
        "the log holds nothing that was not appended", survivors.lines <= acknowledged + 1
    )


def committed_kept(committed: int, end: int) -> Promise:
    """Promise that everything committed before the kill survived."""
    return Promise(
        f"everything committed (up to position {committed:,}) survived", end >= committed
    )


def was_flushed(position: int, flushed: int) -> Promise:
    """Promise that the last append was flushed before it returned."""
    return Promise(
        f"the last append (position {position:,}) was flushed before it returned",
        flushed > position,
    )
