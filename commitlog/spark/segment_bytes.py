"""The bytes of a segment file, wherever it is, and a window on them that moves forward."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

import numpy as np

from commitlog.errors import CorruptSegmentError, IOFailureError
from commitlog.retention.archived import zstandard
from commitlog.spark import places

COMPRESSED = ".zst"
_SKIPPED_BYTES = 1 << 20
# A frame may ask for as much memory as its window says; more than this is not what an archive is
# made with.
_LARGEST_WINDOW_BYTES = 1 << 27


class SegmentBytes:
    """A segment file that can be read from a place in it.

    Parameters
    ----------
    location : str
        A path, or a URI that `pyarrow.fs` understands; a name that ends in ".zst" is one zstd
        frame.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.read_bytes = 0
        self._file = self._open()

    def _open(self) -> Any:
        return places.open_file(self.location)

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill a view with the bytes from an offset on; fewer where the file ends."""
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
    """A plain file of this machine."""

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
    """One zstd frame: it can be read forward only."""

    # `keep.archived.read_pieces` reads such a frame, too, but as a whole: what it gives was right
    # when its end has come, size and checksum included. A slice ends before that, its records have
    # a CRC each, and those in front of a damaged place are to be had. And it unpacks straight into
    # the window's memory, where pieces would be copied once more.

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


def open_bytes(location: str) -> SegmentBytes:
    """The bytes of a segment file.

    Raises
    ------
    FileNotFoundError
        It is not there (any more).
    """
    if places.name_of(location).endswith(COMPRESSED):
        return CompressedBytes(location)
    return SegmentBytes(location) if places.is_uri(location) else LocalBytes(location)


class Window:
    """A stretch of a segment file in memory, which begins at a multiple of 8 and moves forward. Its
    memory is as large as the longest stretch that was asked for, and not as the segment.

    Parameters
    ----------
    source : SegmentBytes
        The file.
    size : int
        Bytes of the segment.
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
        """Move to an offset and have so many bytes from there, or all up to the segment's end;
        false where the file ends before.
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
