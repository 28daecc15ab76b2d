"""TieredDirectory: a log's directory, and below its first segment those of the log's store."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from commitlog._kernel.segments import Segment
from commitlog.errors import CommitLogError, LogNotFoundError, NotALogError, PositionError
from commitlog.segment.directory import LogDirectory
from commitlog.source.segment_source import SegmentSource
from commitlog.source.source_directory import SourceDirectory

_LIST_S = 1.0  # between two listings, unless segments were deleted in the first directory


class TieredDirectory(LogDirectory):
    """The segments of a directory, and below the first of them those of the next source. For
    readers: a writer counts only what is on its disk.

    Retention deletes a segment in the first directory only when it is stored. A reader that needs
    it then lists the store again, so it passes from store to disk without a gap.

    Parameters
    ----------
    first : LogDirectory
        The log on this disk, or of a server. This directory owns it.
    open_next : callable
        Opens the source below, or raises `LogNotFoundError` while it is empty.
    cache_bytes : int
        How much of it stays in a temporary folder.
    """

    def __init__(
        self, first: LogDirectory, open_next: Callable[[], SegmentSource], cache_bytes: int
    ) -> None:
        self._first = first
        self._open_next = open_next
        self._cache_bytes = cache_bytes
        self._lock = threading.RLock()
        self._older: SourceDirectory | None = None
        self._listed_s = float("-inf")
        self._listed_below = 0  # the first segment of the first directory at the last listing
        super().__init__(first.path, first.identity, first.fd)
        self.kind, self.idle_kept = first.kind, first.idle_kept

    def forked(self) -> None:
        self._lock = threading.RLock()
        self._first.forked()
        if self._older is not None:
            self._older.forked()

    def close(self) -> None:
        super().close()
        self._first.close()
        with self._lock:
            if self._older is not None:
                self._older.close()

    def check(self) -> None:
        self._first.check()

    # --- the source below -------------------------------------------------------------------------

    def _look_below(self, number: int | None = None, below: int = 0) -> SourceDirectory | None:
        """Return the source below; None if it is empty. List it again if it should have a segment
        whole, but the last listing has it in parts or not at all; at once if `below`, the first
        segment of the first directory, has changed.
        """
        with self._lock:
            older, now_s = self._older, time.monotonic()
            behind = older is None or (number is not None and not older.is_whole(number))
            due = now_s - self._listed_s >= _LIST_S or below > self._listed_below
            if behind and due:
                self._listed_s, self._listed_below = now_s, below
                if older is None:
                    self._older = self._open_older()
                else:
                    older.look_again()
            return self._older

    def look_again(self) -> None:
        """List the store anew, however recent the last listing is: its retention may have deleted
        segments since. If the store is out of reach, the last listing counts.
        """
        with self._lock, contextlib.suppress(CommitLogError):
            if self._older is not None:
                self._listed_s = time.monotonic()
                self._older.look_again()

    def _open_older(self) -> SourceDirectory | None:
        try:
            source = self._open_next()
        except LogNotFoundError:
            return None
        if source.identity.uuid != self.log_uuid:
            location = source.location
            source.close()
            raise NotALogError(
                f"the store {location} has another log: open this one with its own store",
                path=self.path,
            )
        return SourceDirectory(source, self._cache_bytes)

    def _below(self, number: int) -> SourceDirectory | None:
        """Return the source below if it has a segment whole that is not in the first directory.
        Parts of a segment were stored while it was there.
        """
        if self._first.has(number):
            return None
        numbers = self._first.segment_numbers()
        if not numbers or number >= numbers[0]:
            return None
        older = self._look_below(number, numbers[0])
        return older if older is not None and older.is_whole(number) else None

    def _below_later(self, number: int) -> SourceDirectory | None:
        """Return the source below if it has a segment by now; refuse one that is missing there
        between others, as a reader of the store alone does.
        """
        older, numbers = self._older, self._first.segment_numbers()
        if older is None or not numbers or number >= numbers[0]:
            return None
        return older if older.has_or_deleted(number) and older.is_whole(number) else None

    def is_older(self, number: int) -> bool:
        return self._below(number) is not None

    def is_stored(self, number: int) -> bool:
        older = self._look_below(number)
        return older is not None and older.is_whole(number)

    # --- a directory of segments ------------------------------------------------------------------

    def segment_numbers(self) -> list[int]:
        numbers = self._first.segment_numbers()
        if not numbers:
            return numbers
        older = self._look_below(numbers[0] - 1 if numbers[0] else None, numbers[0])
        if older is None:
            return numbers
        stored = older.segment_numbers()
        return [*(each for each in stored if each < numbers[0] and older.is_whole(each)), *numbers]

    def has(self, number: int) -> bool:
        return self._first.has(number) or self._below(number) is not None

    def fetch(self, number: int) -> None:
        older = self._below(number) or self._below_later(number)
        if older is None:
            try:
                self._first.fetch(number)
                return
            except PositionError:  # deleted meanwhile
                older = self._below(number)
                if older is None:
                    raise
        older.fetch(number)

    def elsewhere(self, number: int) -> Segment | None:
        older = self._below(number)
        return None if older is None else older.open_segment(number, writable=False)

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        return self._first.open_segment(number, writable=writable)

    def read_header(self, number: int) -> bytes | None:
        older = self._below(number)
        if older is None:
            try:
                return self._first.read_header(number)
            except PositionError:  # deleted meanwhile
                older = self._below(number)
                if older is None:
                    raise
        return older.read_header(number)

    @property
    def joining(self) -> bool:
        return self._first.joining

    def disk_bytes(self, number: int) -> int:
        """Return what a segment takes on this disk, or else in the store."""
        older = self._below(number)
        return self._first.disk_bytes(number) if older is None else older.disk_bytes(number)

    def whole_disk_bytes(self) -> int:
        """Return what the first directory takes."""
        self._first.settled_below = self.settled_below
        return self._first.whole_disk_bytes()

    def segment_path(self, number: int) -> str:
        older = self._older
        if older is not None and older.has(number) and not self._first.has(number):
            return older.segment_path(number)
        return self._first.segment_path(number)
