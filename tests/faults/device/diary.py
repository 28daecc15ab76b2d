"""What the calls of a workload reported, and how many entries the device had then."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.faults.child import Report

_LINE = struct.Struct("<cqqqq")


class Diary:
    """Where a process notes what a call told it. It has the interface of `Link.say`.

    Parameters
    ----------
    path : Path
        The file of the notes; several processes may append to it.
    count : mmap.mmap
        The number of entries of the device.
    """

    def __init__(self, path: Path, count: mmap.mmap) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._count = count

    def say(self, kind: str, session: int = 0, index: int = 0, position: int = 0) -> None:
        """Note something after the call that told it has returned.

        The device may have got more entries since the call returned, so a cut before the noted
        number may be after the return. Then the note is not counted, which only asks for less.
        """
        done = struct.unpack_from("<Q", self._count)[0]
        os.write(self._fd, _LINE.pack(kind.encode(), session, index, position, done))


@dataclass(frozen=True)
class Story:
    """The reports before a cut, those of the whole run, and those that the device still followed
    with an entry before the cut.
    """

    told: list[Report]
    whole: list[Report]
    followed: list[Report]

    @cached_property
    def set(self) -> frozenset[Report]:
        """Return the reports before the cut as a set."""
        return frozenset(self.told)

    def kinds(self, kind: str) -> Iterator[Report]:
        """Yield the reports before the cut, of one kind."""
        return (report for report in self.told if report.kind == kind)

    def last(self, kind: str) -> Report | None:
        """Return the last report of a kind before the cut."""
        return max(self.kinds(kind), key=lambda report: report.index, default=None)


def stories(path: Path) -> list[tuple[int, Report]]:
    """Read the notes: each with the number of entries of the device at that time."""
    content = path.read_bytes() if path.exists() else b""
    return [
        (done, Report(kind.decode(), *numbers))
        for kind, *numbers, done in _LINE.iter_unpack(content)
    ]


def story_at(notes: list[tuple[int, Report]], at: int) -> Story:
    """Return the story of a cut after some entries of the device."""
    return Story(
        [note for done, note in notes if done <= at],
        [note for _, note in notes],
        [note for done, note in notes if done < at],
    )


def moments(notes: list[tuple[int, Report]], first: int, last: int) -> list[list[int]]:
    """Return the points at which to cut: half of them anywhere, the others right after a note, as
    often after one of a rare kind as after one of a frequent kind.
    """
    by_kind: dict[str, list[int]] = {}
    for done, note in notes:
        by_kind.setdefault(note.kind, []).append(done)
    return [list(range(first, last + 1))] * max(1, len(by_kind)) + list(by_kind.values())
