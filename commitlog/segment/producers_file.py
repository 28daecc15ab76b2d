"""The file `producers`: which numbers of each producer the sealed segments have.

It is a copy of the marks in the segments, so that a handle reads only those of the later segments,
and so that marks outlive the segments that retention deletes. It names the last segment that it
covers. If it is missing, damaged or belongs to other segments, it is rebuilt.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from commitlog._kernel.segments import HEADER_SIZE, Segment
from commitlog.base.failpoint import failpoint
from commitlog.base.life_lock import LifeLock, Span, byte, open_lock_file
from commitlog.base.polling import attempts
from commitlog.errors import CommitLogError, LogLockedError
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory
from commitlog.segment.lock_file import NAME as LOCK_NAME

NAME = "producers"
NUMBERS_KEPT = 64  # of each producer
PRODUCERS_KEPT = 4096  # those that appended last
_KEPT_AHEAD = 16  # segments
# Bytes of the file `lock`, far behind those that handles and slots lock.
_FILE_LOCK = byte(1 << 40)
_FIRST_NAME_LOCK = (1 << 40) + 1
_LOCK_S = 10.0

_logger = logging.getLogger("commitlog")


def name_lock(producer: int) -> Span:
    """Return the span of the file `lock` that the user of a producer's name locks."""
    return byte(_FIRST_NAME_LOCK + (producer & 0xFFFF_FFFF_FFFF))


@dataclass(eq=False)
class Numbers:
    """The last numbers of a producer.

    Attributes
    ----------
    floor : int
        No more is known of the numbers up to this one.
    positions : dict of int to int
        The position of the record with each later number.
    """

    floor: int = -1
    positions: dict[int, int] = field(default_factory=dict)

    def note(self, number: int, position: int) -> None:
        self.positions.setdefault(number, position)
        if len(self.positions) > NUMBERS_KEPT:
            oldest = min(self.positions)
            del self.positions[oldest]
            self.floor = max(self.floor, oldest)

    @property
    def last_position(self) -> int:
        return max(self.positions.values(), default=-1)


@dataclass(eq=False)
class Covered:
    """What the segments below `number` have, by producer."""

    number: int
    producers: dict[int, Numbers] = field(default_factory=dict)

    def note(self, producer: int, number: int, position: int) -> None:
        """Add a mark."""
        self.producers.setdefault(producer, Numbers()).note(number, position)


def is_used(directory: LogDirectory) -> bool:
    """Return whether a producer ever appended to the log."""
    return directory.has_file(NAME)


def extend(directory: LogDirectory, below: int, *, create: bool = False) -> Covered:
    """Bring the file up to the sealed segments below a number, durably; return what it then has.

    Every record of those segments is durable. With `create`, the file is there when this returns.
    """
    with _locked(directory):
        covered, is_written = _read(directory)
        first = covered.number
        while covered.number < below and _add(directory, covered):
            covered.number += 1
        if covered.number > first or (create and not is_written):
            _write(directory, covered)
    return covered


def keep(directory: LogDirectory, below: int) -> int:
    """Bring the file up to the segments below a number, which are about to be deleted; return the
    number up to which nothing is left to do.

    It is brought up to some later segments as well: to replace the file takes as long as all of its
    producers, and retention often deletes one segment at a time.
    """
    if not is_used(directory):
        return below
    return extend(directory, below + _KEPT_AHEAD).number


def open_lock(directory: LogDirectory, span: Span) -> LifeLock:
    """Return a lock on a range of the log's lock file, which is not acquired yet."""
    with directory.translate_errors(f"open {LOCK_NAME}"):
        return LifeLock(lambda: open_lock_file(LOCK_NAME, directory.fd), None, span)


@contextlib.contextmanager
def _locked(directory: LogDirectory) -> Iterator[None]:
    lock = open_lock(directory, _FILE_LOCK)
    try:
        for _ in attempts(_LOCK_S, f"the file `{NAME}` of {directory.path}"):
            if lock.acquire("exclusive"):
                break
        else:
            raise LogLockedError(
                f"another process changed `{NAME}` for {_LOCK_S:g} s: try again",
                path=directory.path,
            )
        yield
    finally:
        lock.close()


def _read(directory: LogDirectory) -> tuple[Covered, bool]:
    """Read the file; return also whether there is a usable one."""
    first = min(directory.segment_numbers(), default=0)
    try:
        content = checked_json.read(directory, NAME)
        if content is None:
            return Covered(first), False
        covered = _covered(content)
        last = covered.number - 1
        if last < first or content["seal"] == _seal_of(directory, last):
            covered.number = max(covered.number, first)
            return covered, True
        _logger.warning("%s: `%s` belongs to other segments and is rebuilt", directory.path, NAME)
    except (
        CommitLogError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
    ) as error:
        _logger.warning("%s: `%s` is rebuilt: %s", directory.path, NAME, error)
    return Covered(first), False


def _covered(content: dict[str, Any]) -> Covered:
    producers = {
        int(name, 16): Numbers(
            int(floor), {int(number): int(position) for number, position in numbers}
        )
        for name, (floor, numbers) in content["producers"].items()
    }
    return Covered(int(content["below"]), producers)


def _write(directory: LogDirectory, covered: Covered) -> None:
    kept = sorted(covered.producers.items(), key=lambda each: each[1].last_position)
    covered.producers = dict(kept[-PRODUCERS_KEPT:])
    content = {
        "below": covered.number,
        "seal": _seal_of(directory, covered.number - 1),
        "producers": {
            f"{name:016x}": [each.floor, sorted(each.positions.items())]
            for name, each in covered.producers.items()
        },
    }
    failpoint("producers read")
    checked_json.write(directory, NAME, content)
    failpoint("producers written")


def _seal_of(directory: LogDirectory, number: int) -> list[int] | None:
    """Return what identifies a sealed segment; None without such a segment."""
    if number < 0 or not directory.has(number):
        return None
    with directory.opened_segment(number) as segment:
        seal = segment.sealed()
        return None if seal is None else [segment.id, *seal]


def _add(directory: LogDirectory, covered: Covered) -> bool:
    """Add the marks of the next segment; return False if it is not sealed."""
    if not directory.has(covered.number):
        return False
    with directory.opened_segment(covered.number) as segment:
        if segment.sealed() is None:
            return False
        for mark in marks_of(segment, segment.size):
            covered.note(*mark)
        return True


def marks_of(segment: Segment, limit: int) -> Iterator[tuple[int, int, int]]:
    """Yield producer, number and position of each marked record below an offset, also behind
    damage.
    """
    offset = HEADER_SIZE
    while offset < limit:
        marks, offset, code = segment.marks(offset, limit)
        yield from marks
        if code:
            offset = segment.resume(offset)
