"""TieredDirectory: a log's directory whose older segments are read from its store."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from commitlog._kernel.segments import Segment
from commitlog.errors import CommitLogError, LogNotFoundError, NotALogError, PositionError
from commitlog.segment.directory import LogDirectory
from commitlog.stores.archived_directory import ArchivedDirectory
from commitlog.stores.store import Store

_LIST_S = 1.0  # between two listings, unless segments were deleted here


class TieredDirectory(LogDirectory):
    """The segments on this disk, and below the first of them those of the store. For readers: a
    writer counts only what is on its disk.

    Retention deletes a segment here only when it is stored. A reader that needs it then lists the
    store again, so it passes from store to disk without a gap. `place` is what the base class
    takes.
    """

    def __init__(self, store: Store, cache_bytes: int, *place: Any) -> None:
        self._store = store
        self._cache_bytes = cache_bytes
        self._store_lock = threading.RLock()
        self._older: ArchivedDirectory | None = None
        self._listed_s = float("-inf")
        self._listed_below = 0  # the first segment here when the store was listed
        super().__init__(*place)

    def forked(self) -> None:
        super().forked()
        self._store_lock = threading.RLock()
        if self._older is not None:
            self._older.forked()

    def close(self) -> None:
        super().close()
        with self._store_lock:
            if self._older is not None:
                self._older.close()

    # --- the store --------------------------------------------------------------------------------

    def _stored(self, number: int | None = None, below: int = 0) -> ArchivedDirectory | None:
        """Return the contents of the store; None if it is empty. List it again if it should have a
        segment whole, but the last listing has it in parts or not at all; at once if `below`, the
        first segment here, has changed.
        """
        with self._store_lock:
            older, now_s = self._older, time.monotonic()
            behind = older is None or (number is not None and not older.is_whole(number))
            due = now_s - self._listed_s >= _LIST_S or below > self._listed_below
            if behind and due:
                self._listed_s, self._listed_below = now_s, below
                if older is None:
                    self._older = self._open_store()
                else:
                    older.list_again()
            return self._older

    def look_again(self) -> None:
        """List the store anew, however recent the last listing is: its retention may have deleted
        segments since. If the store is out of reach, the last listing counts.
        """
        with self._store_lock, contextlib.suppress(CommitLogError):
            if self._older is not None:
                self._listed_s = time.monotonic()
                self._older.list_again()

    def _open_store(self) -> ArchivedDirectory | None:
        store = self._store
        try:
            found = ArchivedDirectory(store.target, self._cache_bytes, store.filesystem)
        except LogNotFoundError:
            return None
        if found.log_uuid != self.log_uuid:
            found.close()
            raise NotALogError(
                f"the store {found.path} has another log: open this one with its own store",
                path=self.path,
            )
        return found

    def _in_store(self, number: int) -> ArchivedDirectory | None:
        """Return the store if it has a segment whole that is not on this disk. Parts of a segment
        were stored while it was on this disk.
        """
        if super().has(number):
            return None
        local = super().segment_numbers()
        if not local or number >= local[0]:
            return None
        older = self._stored(number, local[0])
        return older if older is not None and older.is_whole(number) else None

    def is_older(self, number: int) -> bool:
        """Return whether a segment is in the store, and below those of this disk."""
        return self._in_store(number) is not None

    def is_stored(self, number: int) -> bool:
        """Return whether the store has a segment whole; this disk may have it, too."""
        older = self._stored(number)
        return older is not None and older.is_whole(number)

    # --- a directory of segments ------------------------------------------------------------------

    def segment_numbers(self) -> list[int]:
        local = super().segment_numbers()
        if not local:
            return local
        older = self._stored(local[0] - 1 if local[0] else None, local[0])
        if older is None:
            return local
        stored = older.segment_numbers()
        return [*(each for each in stored if each < local[0] and older.is_whole(each)), *local]

    def has(self, number: int) -> bool:
        return super().has(number) or self._in_store(number) is not None

    def fetch(self, number: int) -> None:
        older = self._in_store(number)
        if older is None:
            try:
                super().fetch(number)
                return
            except PositionError:  # deleted meanwhile
                older = self._in_store(number)
                if older is None:
                    raise
        older.fetch(number)

    def elsewhere(self, number: int) -> Segment | None:
        older = self._in_store(number)
        return None if older is None else older.open_segment(number, writable=False)

    def read_header(self, number: int) -> bytes | None:
        older = self._in_store(number)
        if older is None:
            try:
                return super().read_header(number)
            except PositionError:  # deleted meanwhile
                older = self._in_store(number)
                if older is None:
                    raise
        return older.read_header(number)

    def disk_bytes(self, number: int) -> int:
        """Return what a segment takes on this disk, or else compressed in the store."""
        older = self._in_store(number)
        return super().disk_bytes(number) if older is None else older.disk_bytes(number)

    def segment_path(self, number: int) -> str:
        older = self._older
        if older is not None and older.has(number) and not super().has(number):
            return older.segment_path(number)
        return super().segment_path(number)
