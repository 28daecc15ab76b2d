"""The bytes of a local or remote segment file, and a window over them that moves forward."""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

import numpy as np

from commitlog.base.path import is_remote
from commitlog.errors import CorruptSegmentError, IOFailureError, PositionError
from commitlog.network.remote.connection import Connection
from commitlog.network.remote.update import Update
from commitlog.spark import places
from commitlog.stores.archived import read_identity, zstandard
from commitlog.stores.stored_segments import StoredSegments
from commitlog.stores.target import target_of

COMPRESSED = ".zst"
_STORE = "store:"
_SKIPPED_BYTES = 1 << 20
# A zstd frame states the memory that its decoder needs. The frames of an archive need no more than
# this.
_LARGEST_WINDOW_BYTES = 1 << 27


class SegmentBytes:
    """A segment file that can be read from an offset."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.read_bytes = 0
        self._file = self._open()

    def _open(self) -> Any:
        return places.open_file(self.location)

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill a view with the bytes from an offset, and return how many the file had."""
        done = 0
        while done < len(view):
            got = self._read_once(view[done:], offset + done)
            if got == 0:
                break
            done += got
        self.read_bytes += done
        return done

    def _read_once(self, view: memoryview, offset: int) -> int:
        try:
            self._file.seek(offset)
            return int(self._file.readinto(view))
        except OSError as error:
            raise IOFailureError(
                f"the segment cannot be read: {error}", path=self.location, errno=error.errno
            ) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class LocalBytes(SegmentBytes):
    """A plain local file."""

    def _open(self) -> Any:
        return places.open_file(self.location, buffered=False)

    def _read_once(self, view: memoryview, offset: int) -> int:
        try:
            return os.preadv(self._file.fileno(), [view], offset)
        except OSError as error:
            raise IOFailureError(
                f"the segment cannot be read: {error.strerror}",
                path=self.location,
                errno=error.errno,
            ) from error


class CompressedBytes(SegmentBytes):
    """A file that is one zstd frame. It can be read forward only."""

    # `stores.archived.read_pieces` checks a frame as a whole, at its end. A slice may end before
    # that. Its records have CRCs, and those before a damage must be readable. Decompressing into
    # the window's memory also saves a copy.

    def _open(self) -> Any:
        library = zstandard()
        self._error = library.ZstdError
        self._at = 0
        decompressor = library.ZstdDecompressor(max_window_size=_LARGEST_WINDOW_BYTES)
        return decompressor.stream_reader(places.open_file(self.location), closefd=True)

    def _read_once(self, view: memoryview, offset: int) -> int:
        if offset < self._at:
            raise ValueError("a compressed segment is read forward only")
        while self._at < offset:
            passed = self._advance(memoryview(bytearray(min(_SKIPPED_BYTES, offset - self._at))))
            if passed == 0:
                return 0
        return self._advance(view)

    def _advance(self, view: memoryview) -> int:
        try:
            got = int(self._file.readinto(view))
        except self._error as error:
            raise CorruptSegmentError(
                f"the compressed segment is damaged at byte {self._at} of its content ({error}): "
                "restore it from a copy",
                path=self.location,
            ) from error
        except OSError as error:
            raise IOFailureError(
                f"the segment cannot be read: {error}", path=self.location, errno=error.errno
            ) from error
        self._at += got
        return got


class RemoteBytes(SegmentBytes):
    """A segment of a log on another machine: `RemoteDirectory` names it by the log's URL and the
    segment's base. The token is that of this process's environment.
    """

    def _open(self) -> Any:
        url, _, base = self.location.partition("#")
        self._base = int(base)
        return Connection(url)

    def _read_once(self, view: memoryview, offset: int) -> int:
        start, end = self._base + offset, 0

        def take(update: Update) -> None:
            nonlocal end
            at = update.position - start
            end = at + len(update.content)
            view[at:end] = update.content

        self._file.read([(start, start + len(view))], take)
        return end


class StoredBytes(SegmentBytes):
    """A segment of a store: whole, or its parts. It can be read forward only."""

    def _open(self) -> StoredSegments:
        place, _, base = self.location.removeprefix(_STORE).rpartition("#")
        self._base = self._at = int(base)
        self._pieces: Generator[bytes, None, None] | None = None
        self._rest = memoryview(b"")
        target = target_of(place)
        return StoredSegments(target, read_identity(target))

    def _read_once(self, view: memoryview, offset: int) -> int:
        position = self._base + offset
        if self._pieces is None:
            self._pieces, self._at = self._file.pieces(position), position
        if position < self._at:
            raise ValueError("a stored segment is read forward only")
        while self._at + len(self._rest) <= position:
            self._at += len(self._rest)
            self._rest = memoryview(self._next())
            if not self._rest:
                return 0
        found = self._rest[position - self._at :][: len(view)]
        view[: len(found)] = found
        return len(found)

    def _next(self) -> bytes:
        assert self._pieces is not None
        try:
            return next(self._pieces, b"")
        except CorruptSegmentError:
            if self._file.lists(self._base):
                raise
            raise PositionError(
                "the store does not have this segment: its retention deleted it, or the listing "
                "of the store is behind",
                path=self.location,
                position=self._base,
            ) from None

    def close(self) -> None:
        if self._pieces is not None:
            self._pieces.close()


def stored_location(place: str, base: int) -> str:
    return f"{_STORE}{place}#{base}"


def open_bytes(location: str) -> SegmentBytes:
    """Open a segment file. A name that ends in ".zst" is one zstd frame."""
    if is_remote(location):
        return RemoteBytes(location)
    if location.startswith(_STORE):
        return StoredBytes(location)
    if places.name_of(location).endswith(COMPRESSED):
        return CompressedBytes(location)
    return SegmentBytes(location) if places.is_uri(location) else LocalBytes(location)


class Window:
    """A part of a segment file in memory, which begins at a multiple of 8 and moves forward. It
    uses as much memory as the longest part that was requested.
    """

    def __init__(self, source: SegmentBytes, size: int) -> None:
        self._source = source
        self._size = size
        self._memory = np.empty(0, dtype=np.uint64)
        self.start = 0
        self.stop = 0

    @property
    def data(self) -> memoryview:
        return self._memory.data.cast("B")[: self.stop - self.start]

    def reach(self, offset: int, length: int) -> bool:
        """Move to an offset and load `length` bytes, or those up to the segment's end. Return
        false if the file ends earlier.
        """
        target = min(offset + length, self._size)
        if self.start <= offset and target <= self.stop:
            return True
        kept = bytes(self.data[offset - self.start :]) if self.start <= offset < self.stop else b""
        if target - offset > self._memory.nbytes:
            self._memory = np.empty(-(-(target - offset) // 8), dtype=np.uint64)
        view = self._memory.data.cast("B")
        view[: len(kept)] = kept
        got = self._source.read_into(view[len(kept) : target - offset], offset + len(kept))
        self.start, self.stop = offset, offset + len(kept) + got
        return self.stop >= target
