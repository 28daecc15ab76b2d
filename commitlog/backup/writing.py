"""Write a backup of an open log as a new log: its segments up to one position, and what belongs to
them.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from commitlog.backup.contents import (
    Contents,
    opened_logs,
    put_contents,
    read_contents,
    read_producers,
)
from commitlog.backup.earlier import NOTE, EarlierBackup, note_of
from commitlog.backup.source_log import SourceLog
from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.base.progress import Meter
from commitlog.errors import PositionError
from commitlog.extension import Lineage, LockedLog, LogCopy
from commitlog.types import BackupContent

_TRIES = 16  # while retention deletes segments ahead of the copy


class Segments(Protocol):
    """Where segments go when they are in a copy."""

    def take(self, number: int, stop: int) -> None:
        """A segment is in the copy, durably, up to an offset."""

    def drop(self, numbers: list[int]) -> None:
        """Remove segments that were taken: all of them so far, or the last one."""


@dataclass
class Written:
    """What was written.

    Attributes
    ----------
    end : int
        The position at which the backup ends.
    numbers : list of int
        The segments that the backup has, ascending.
    new : list of int
        Those that were written, and not taken over from an earlier backup.
    bytes : int
        How many bytes of segments were written.
    """

    contents: Contents
    end: int = 0
    numbers: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    bytes: int = 0


class Writing:
    """Write one log into a `LogCopy`.

    Parameters
    ----------
    source : SourceLog
        The log.
    copy : LogCopy
        Still empty.
    path : str
        Its directory.
    segments : Segments
        What becomes of the segments.
    meter : Meter
        Counts the bytes that are read, `rounds` times each.
    """

    def __init__(
        self,
        source: SourceLog,
        copy: LogCopy,
        path: str,
        segments: Segments,
        meter: Meter,
        *,
        rounds: int = 1,
    ) -> None:
        self._source = source
        self._size = source.size
        self._copy = copy
        self._path = path
        self._segments = segments
        self._meter = meter
        self._rounds = rounds

    def run(self, wanted: frozenset[BackupContent], earlier_path: str | None = None) -> Written:
        """Write everything, and make a log of it.

        If retention deletes a segment before it is copied, the backup begins behind it. The marks
        of producers in it are in a file then, which is read again, before a new end is chosen.
        """
        source = self._source
        first = source.view.segment_numbers()[0]
        written = Written(read_contents(source.log, source.folder, wanted))
        self._copy_queues(written.contents)
        with contextlib.ExitStack() as opened:
            earlier: EarlierBackup | None = None
            for _ in range(_TRIES):
                producers = read_producers(source.folder, wanted)
                written.contents = replace(written.contents, producers=producers)
                self._drop_partial(written)
                written.end = source.find_end()
                if earlier_path is not None and earlier is None:
                    earlier = EarlierBackup(earlier_path, source, written.end)
                    opened.callback(earlier.close)
                self._copy_segments(written, earlier)
                if written.contents.covers(written.numbers[0], first):
                    break
            else:
                raise PositionError(
                    "retention deletes segments faster than they are copied: let the log keep "
                    "more, or give it a required tailer while the backup runs",
                    path=source.log.path,
                )
        source.check_same()
        put_contents(self._copy, written.contents, written.end)
        self._finish(written.end, sorted(wanted))
        return written

    def _copy_queues(self, contents: Contents) -> None:
        folder = self._source.folder
        if folder is None:
            return
        with opened_logs(folder, contents) as logs:
            for path, log in logs:
                source = SourceLog(log)
                place = os.path.join(self._path, path)
                with LockedLog.restore(place, source.identity) as copy:
                    inner = Writing(source, copy, place, InPlace(copy), Meter(None, 0))
                    inner.run(frozenset())

    def _drop_partial(self, written: Written) -> None:
        """Remove the last segment if the end of an earlier try was inside it."""
        if written.numbers and written.end < (written.numbers[-1] + 1) * self._size:
            self._drop(written, written.numbers[-1:])

    def _drop(self, written: Written, numbers: list[int]) -> None:
        self._segments.drop(numbers)
        gone = set(numbers)
        written.numbers = [each for each in written.numbers if each not in gone]
        written.new = [each for each in written.new if each not in gone]

    def _copy_segments(self, written: Written, earlier: EarlierBackup | None) -> None:
        source, end = self._source, written.end
        numbers = source.numbers(end)
        if earlier is not None:
            # What the log has deleted since is kept; what the backup has is not begun anew below.
            first = earlier.numbers[0]
            numbers = sorted({*earlier.numbers, *(each for each in numbers if each >= first)})
        there = set(written.numbers)
        missing = [each for each in numbers if each not in there]
        shared = set() if earlier is None else {*filter(partial(earlier.has_whole, end), missing)}
        self._meter.grow(
            sum(source.stop_of(each, end) for each in missing if each not in shared) * self._rounds
        )
        for number in missing:
            if earlier is not None and number in shared:
                self._copy.link_segment(number, earlier.path_of(number))
            elif not self._write(number, written):
                if earlier is not None:
                    raise PositionError(
                        "the log deleted a segment that the backup lacks before it was copied: "
                        "make a new backup in another directory",
                        path=source.log.path,
                        position=number * self._size,
                    )
                self._drop(written, written.numbers)
                continue
            else:
                written.new.append(number)
            self._segments.take(number, source.stop_of(number, end))
            written.numbers.append(number)

    def _write(self, number: int, written: Written) -> bool:
        """Write a segment; return False if the log deleted it meanwhile."""
        source, end = self._source, written.end
        is_last = end < (number + 1) * self._size
        try:
            self._copy.add_segment(
                number, lambda file: source.write(number, end, file, self._meter.add), last=is_last
            )
        except PositionError:
            self._copy.remove_segment(number)
            return False
        written.bytes += source.stop_of(number, end)
        return True

    def _finish(self, end: int, contents: list[str]) -> None:
        """Make a log of the segments, which has no copies, has promised nothing, and follows none.
        It has a new id if it has one.
        """
        self._copy.notes.write(NOTE, note_of(end, host.time_ns(), contents))
        failpoint("backup noted")
        epochs = self._source.lineage.reached(end).epochs
        self._copy.finish(end, Lineage(epochs) if epochs else None)


class InPlace:
    """Segments that stay in the copy."""

    def __init__(self, copy: LogCopy) -> None:
        self._copy = copy

    def take(self, number: int, stop: int) -> None:
        pass

    def drop(self, numbers: list[int]) -> None:
        for number in numbers:
            self._copy.remove_segment(number)
