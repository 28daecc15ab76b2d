"""The bytes of a local or remote segment file, and a window over them that moves forward."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

import numpy as np

from commitlog.base.path import is_remote
from commitlog.errors import CorruptSegmentError, IOFailureError, PositionError
from commitlog.remote.connection import Connection
from commitlog.remote.piece import Piece
from commitlog.retention.archived import archived_name, read_identity, zstandard
from commitlog.retention.tail_object import TailObject, read_contents, read_part
from commitlog.retention.target import reading, target_of
from commitlog.spark import places

COMPRESSED = ".zst"
_STORE = "store:"
_LISTINGS_MOST = 5
_SKIPPED_BYTES = 1 << 20
# A zstd frame states the memory that its decoder needs. The frames of an archive need no more than
# this.
_LARGEST_WINDOW_BYTES = 1 << 27


class SegmentBytes:
    """A segment file that can be read from an offset.

    Parameters
    ----------
    location : str
        A path, or a URI that `pyarrow.fs` supports.
    """

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

    # `retention.archived.read_pieces` checks a frame as a whole, at its end. A slice may end before
    # that. Its records have CRCs, and those before a damage must be readable. Decompressing into
    # the window's memory also saves a copy.

    def _open(self) -> Any:
        library = zstandard()
        self._error = library.ZstdError
        self._at = 0
        decompressor = library.ZstdDecompressor(max_window_size=_LARGEST_WINDOW_BYTES)
        return decompressor.stream_reader(self._opened(), closefd=True)

    def _opened(self) -> Any:
        return places.open_file(self.location)

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

        def take(piece: Piece) -> None:
            nonlocal end
            at = piece.position - start
            end = at + len(piece.content)
            view[at:end] = piece.content

        self._file.read([(start, start + len(view))], take)
        return end


class WholeBytes(CompressedBytes):
    """A whole segment of a store."""

    def _opened(self) -> Any:
        place, base = _store_and_base(self.location)
        with reading(self.location):
            return target_of(place).open(archived_name(base))


class StoredBytes(SegmentBytes):
    """A segment of a store: whole, or its parts, each read when it is needed."""

    def _open(self) -> SegmentBytes | None:
        place, self._base = _store_and_base(self.location)
        self._target = target_of(place)
        self._part: tuple[TailObject, bytes] | None = None
        self._parts: list[TailObject] = []
        try:
            return WholeBytes(self.location)
        except FileNotFoundError:
            self._identity = read_identity(self._target)
            return self._listed()

    def _listed(self) -> SegmentBytes | None:
        """Find the parts; return the whole segment if that has replaced them."""
        size = self._identity.segment_size
        contents, number = read_contents(self._target, size), self._base // size
        if number in contents.sizes:
            return WholeBytes(self.location)
        self._parts = contents.parts.get(number, [])
        if not self._parts:
            first = min(contents.numbers, default=0)
            raise PositionError(
                "the store does not have this segment: its retention deleted it, or the listing "
                "of the store is behind",
                path=self.location,
                position=self._base,
                first_position=first * size,
            )
        return None

    def _read_once(self, view: memoryview, offset: int) -> int:
        position = self._base + offset
        for _ in range(_LISTINGS_MOST):
            if self._file is not None:
                return int(self._file._read_once(view, offset))
            part = next((each for each in self._parts if each.first <= position < each.end), None)
            if part is None:
                return 0
            try:
                content = self._content(part)
            except FileNotFoundError:  # a larger object has replaced it
                self._file = self._listed()
                continue
            found = content[position - part.first :][: len(view)]
            view[: len(found)] = found
            return len(found)
        raise IOFailureError("the parts of this segment change too often", path=self.location)

    def _content(self, part: TailObject) -> bytes:
        if self._part is None or self._part[0] != part:
            self._part = part, read_part(self._target, part, self._identity)
        return self._part[1]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def stored_location(place: str, base: int) -> str:
    """Return the location of a segment in a store."""
    return f"{_STORE}{place}#{base}"


def _store_and_base(location: str) -> tuple[str, int]:
    place, _, base = location.removeprefix(_STORE).rpartition("#")
    return place, int(base)


def open_bytes(location: str) -> SegmentBytes:
    """Open a segment file. A name that ends in ".zst" is one zstd frame.

    Raises
    ------
    FileNotFoundError
        The file does not exist, or no longer.
    """
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

    Parameters
    ----------
    source : SegmentBytes
        The file.
    size : int
        Size of the segment in bytes.
    """

    def __init__(self, source: SegmentBytes, size: int) -> None:
        self._source = source
        self._size = size
        self._memory = np.empty(0, dtype=np.uint64)
        self.start = 0
        self.stop = 0

    @property
    def data(self) -> memoryview:
        """The bytes from `start` to `stop`."""
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
