"""TarTarget: a backup in one file, with the objects of an archive.

The file is a tar archive in zstd's seekable format: many zstd frames, then a table of their sizes
in a frame that decompressors skip. Unpacked by `tar --zstd`, it is a log. Each whole segment is one
frame, and each part of the last one is, as in a store. The last member, `index.json`, names the
frames of these objects, and those of all other files. So readers find each without the rest.
"""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from commitlog.base.extras import imported
from commitlog.base.regular_file import open_regular, read_range
from commitlog.errors import CorruptSegmentError, NotALogError, ReadOnlyError

SUFFIX = ".tar.zst"
INDEX = "index.json"
TABLE_MAGIC, FOOTER_MAGIC = 0x184D2A5E, 0x8F92EAB1  # of zstd's seekable format
TABLE_HEAD, TABLE_ENTRY, TABLE_FOOTER = struct.Struct("<II"), struct.Struct("<II"), "<IBI"
_FOOTER = struct.Struct(TABLE_FOOTER)
_FRAMES_MOST = 1 << 24
_INDEX_MOST = _SMALL_MOST = 64 << 20  # bytes
_WINDOW_MOST = 128 << 20  # bytes that a frame may ask for, as `zstd` allows
_PIECE = 64 << 10


@dataclass(frozen=True)
class Frame:
    """A zstd frame of the file: where it begins, its size, and the size of its content."""

    start: int
    size: int
    content_size: int


def is_tar_backup(path: str) -> bool:
    """Return whether a path is that of a backup in one file."""
    return path.endswith(SUFFIX) and os.path.isfile(path)


class TarTarget:
    """The objects of a backup in one file; it cannot be changed."""

    conditional = True  # as nothing is put

    def __init__(self, path: str) -> None:
        self.name = path
        self.requests = 0
        self._index: dict[str, tuple[Frame, int]] | None = None
        self._version = (0, 0, 0)

    # --- a target ---------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return list(self._objects())

    def sizes(self) -> dict[str, int]:
        return {name: frame.size for name, (frame, _) in self._objects().items()}

    def size(self, name: str) -> int | None:
        found = self._objects().get(name)
        return None if found is None else found[0].size

    def open(self, name: str, most: int | None = None) -> BinaryIO:
        """Open an object as it is in a store: compressed, if its name says so."""
        self.requests += 1
        found = self._objects().get(name)
        if found is None:
            raise FileNotFoundError(name)
        if name.endswith(".zst"):
            return io.BufferedReader(_Slice(self._opened(), found[0]))
        if found[1] > _SMALL_MOST:
            raise self._damaged(f"has a file {name} that is too large")
        return io.BytesIO(b"".join(self.pieces(name)))

    def path_of(self, name: str) -> str:
        return f"{self.name}#{name}"

    def check(self) -> None:
        raise self._refusal()

    def put(self, name: str, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
        raise self._refusal()

    def delete(self, names: list[str]) -> None:
        raise self._refusal()

    def sweep(self) -> None:
        """Do nothing: the file is whole or absent."""

    def settle(self) -> None:
        """Do nothing: the file was made durable before it got its name."""

    # --- files of a log ---------------------------------------------------------------------------

    def files(self) -> list[str]:
        """Return the names of all files that are no objects of an archive."""
        return [name for name in self._objects() if not name.endswith(".zst")]

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of such a file."""
        frame, size = self._objects()[name]
        for piece in self._decompressed(frame):
            yield piece[:size]
            size -= min(size, len(piece))

    # --- the file ---------------------------------------------------------------------------------

    def _objects(self) -> dict[str, tuple[Frame, int]]:
        status = os.stat(self.name)
        version = status.st_ino, status.st_size, status.st_mtime_ns
        if self._index is None or version != self._version:
            self._index = self._read_index()
            self._version = version
        return self._index

    def _read_index(self) -> dict[str, tuple[Frame, int]]:
        frames = self._frames()
        if len(frames) < 2 or frames[-2].content_size > _INDEX_MOST:  # the last one ends the tar
            raise self._damaged("has no index")
        text = b"".join(self._decompressed(frames[-2])).rstrip(b"\0")
        try:
            listed = json.loads(text)["objects"]
            found = {
                str(name): (frames[int(place)], int(size)) for name, (place, size) in listed.items()
            }
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            raise self._damaged("has a damaged index") from None
        if any(not 0 <= size <= frame.content_size for frame, size in found.values()):
            raise self._damaged("has a damaged index")
        return found

    def _frames(self) -> list[Frame]:
        fd = open_regular(self.name, follow=True)
        try:
            end = os.fstat(fd).st_size
            footer = read_range(fd, _FOOTER.size, max(0, end - _FOOTER.size))
            if len(footer) < _FOOTER.size:
                raise self._foreign()
            count, descriptor, magic = _FOOTER.unpack(footer)
            if magic != FOOTER_MAGIC or descriptor or count > _FRAMES_MOST:
                raise self._foreign()
            table = TABLE_ENTRY.size * count
            start = end - _FOOTER.size - table - TABLE_HEAD.size
            content = read_range(fd, TABLE_HEAD.size + table, start) if start >= 0 else b""
        finally:
            os.close(fd)
        whole = len(content) == TABLE_HEAD.size + table
        if not whole or TABLE_HEAD.unpack_from(content) != (TABLE_MAGIC, table + _FOOTER.size):
            raise self._damaged("has a damaged table of frames")
        frames, at = [], 0
        for size, content_size in TABLE_ENTRY.iter_unpack(content[TABLE_HEAD.size :]):
            frames.append(Frame(at, size, content_size))
            at += size
        if at != start:
            raise self._damaged("has a damaged table of frames")
        return frames

    def _decompressed(self, frame: Frame) -> Iterator[bytes]:
        library: Any = imported("zstandard", "a backup in one file", "archive")
        left = frame.content_size
        inflater = library.ZstdDecompressor(max_window_size=_WINDOW_MOST)
        with (
            io.BufferedReader(_Slice(self._opened(), frame)) as file,
            inflater.stream_reader(file, read_across_frames=False) as content,
        ):
            try:
                while left >= 0 and (piece := content.read(_PIECE)):
                    left -= len(piece)
                    if left >= 0:
                        yield piece
            except library.ZstdError as error:
                raise self._damaged(f"is damaged: {error}") from None
        if left:
            raise self._damaged("is damaged: a frame has another size than the table says")

    def _opened(self) -> BinaryIO:
        return open(open_regular(self.name, follow=True), "rb", buffering=0)

    def _damaged(self, what: str) -> CorruptSegmentError:
        return CorruptSegmentError(
            f"this backup {what}: use another copy of the file, or unpack what is left with "
            "`tar --zstd -xf`",
            path=self.name,
        )

    def _foreign(self) -> NotALogError:
        return NotALogError(
            "this file was not written by `commitlog backup`, or is cut short: if it is a log that "
            "tar packed, unpack it with `tar --zstd -xf`",
            path=self.name,
        )

    def _refusal(self) -> ReadOnlyError:
        return ReadOnlyError(
            "a backup in one file is not changed, and stores nothing: give a directory or an "
            "address, or make a backup with `commitlog backup`",
            path=self.name,
        )


class _Slice(io.RawIOBase):
    """A range of a file, to be read once from its beginning."""

    def __init__(self, file: BinaryIO, frame: Frame) -> None:
        self._file = file
        self._at = frame.start
        self._left = frame.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._left)
        content = os.pread(self._file.fileno(), wanted, self._at)
        buffer[: len(content)] = content
        self._at += len(content)
        self._left -= len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
