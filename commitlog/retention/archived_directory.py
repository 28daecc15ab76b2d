"""ArchivedDirectory: present an archive as a log's directory to readers."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO

from commitlog._kernel.segments import SEAL_AT, SEAL_SIZE, Segment
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import CorruptSegmentError, IOFailureError, PositionError
from commitlog.retention.archived import (
    archived_name,
    read_header,
    read_identity,
    read_pieces,
)
from commitlog.retention.tail_object import Contents, read_contents, read_part
from commitlog.retention.target import Target, target_of
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.seal_table import Seal, SealTable

_LEAST_KEPT = 2  # a reader moves from one to the next
_LISTINGS_MOST = 5
_HOLE_BYTES = 64 << 10
_ZEROS = bytes(_HOLE_BYTES)


class ArchivedDirectory(LogDirectory):
    """The segments that an archive or a store has now, each decompressed on first use.

    The most recently used ones stay decompressed in a temporary folder until this is closed: up to
    `cache_bytes`, but at least two.
    """

    idle_kept = 1
    kind = "archive"

    def __init__(
        self, place: str | os.PathLike[str], cache_bytes: int, filesystem: object = None
    ) -> None:
        self.target: Target = target_of(place, filesystem)
        identity = read_identity(self.target)
        self._contents = read_contents(self.target, identity.segment_size)
        self._numbers = frozenset(self._contents.numbers)
        self._end = self._contents.end(identity.segment_size)
        self._headers: dict[int, bytes] = {}
        self._most = max(_LEAST_KEPT, cache_bytes // identity.segment_size)
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        import tempfile

        self._folder = tempfile.mkdtemp(prefix="commitlog-")
        try:
            super().__init__(self._folder, identity)
        except BaseException:
            self._remove_folder()
            raise
        self.path = self.target.name

    def forked(self) -> None:
        self._lock = threading.Lock()

    def close(self) -> None:
        super().close()
        if self._pid == os.getpid():
            self._remove_folder()

    def _remove_folder(self) -> None:
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)

    def find_end(self) -> int:
        """Return the position behind the last segment, or behind its parts."""
        return self._end

    def sequences(self) -> tuple[int, int]:
        """Return the first sequence, and the one behind the last, from the first and last seal, and
        from the records behind the last seal.
        """
        if not self._numbers:
            return 0, 0
        sealed = [number for number in sorted(self._numbers) if number in self._contents.sizes]
        first = next_sequence = 0
        if sealed:
            first, last = self._seal(sealed[0]).first_sequence, self._seal(sealed[-1])
            next_sequence = last.first_sequence + last.record_count
        for number in sorted(self._contents.parts):
            with self.opened_segment(number) as segment:
                next_sequence += segment.scan()[2]
        return first, next_sequence

    def _seal(self, number: int) -> Seal:
        seal = SealTable(self).get(number)
        if seal is None:
            raise CorruptSegmentError(
                "this archived segment is not sealed, so it is damaged: restore it from another "
                "copy of the archive",
                path=self.segment_path(number),
                position=number * self.segment_size,
            )
        return seal

    def segment_path(self, number: int) -> str:
        return self.target.path_of(archived_name(number * self.segment_size))

    def segment_numbers(self) -> list[int]:
        return sorted(self._numbers)

    def has(self, number: int) -> bool:
        return number in self._numbers

    def disk_bytes(self, number: int) -> int:
        """Return a segment's compressed size in the archive; 0 if it is not there."""
        contents = self._contents
        return contents.sizes.get(number) or contents.part_bytes.get(number, 0)

    def whole_disk_bytes(self) -> int:
        return sum(map(self.disk_bytes, self._numbers))

    def read_header(self, number: int) -> bytes | None:
        if number not in self._contents.sizes:
            return super().read_header(number) if number in self._cached else None
        header = self._headers.get(number)
        if header is None:
            header = self._headers[number] = read_header(
                self.target, number * self.segment_size, self.identity
            )
        return header

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        self.fetch(number)
        return super().open_segment(number, writable=writable)

    def fetch(self, number: int) -> None:
        """Decompress an archived segment into the temporary folder, unless it is there."""
        if number not in self._numbers:
            return
        with self._lock:
            if number in self._cached:
                self._cached.move_to_end(number)
                return
            self._unpack(number)
            self._cached[number] = None
            while len(self._cached) > self._most:
                # A mapping of the file stays valid.
                oldest, _ = self._cached.popitem(last=False)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(segment_name(oldest * self.segment_size), dir_fd=self.fd)

    def _unpack(self, number: int) -> None:
        base = number * self.segment_size
        name = segment_name(base)
        try:
            with temporary_file(self.fd, name, 0o600) as (fd, temporary):
                with open(fd, "wb", closefd=False) as file:
                    self.unpack(number, file, self._end)
                os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            if isinstance(error, IOFailureError):
                raise
            raise IOFailureError(
                f"an archived segment cannot be decompressed into {self._folder}: "
                f"{error.strerror}; free space there, or set TMPDIR to another folder",
                path=self.segment_path(number),
                errno=error.errno,
            ) from error

    def unpack(self, number: int, file: BinaryIO, end: int) -> None:
        """Write a segment to a file, up to a position at which a record begins or ends, and without
        a seal if that is in this segment. Zeros become holes.
        """
        for piece in self._pieces(number):
            for start in range(0, len(piece), _HOLE_BYTES):
                part = memoryview(piece)[start : start + _HOLE_BYTES]
                if part == _ZEROS[: len(part)]:
                    file.seek(len(part), os.SEEK_CUR)  # a hole takes no room
                else:
                    file.write(part)
        base = number * self.segment_size
        if end < base + self.segment_size:
            file.truncate(end - base)
            file.seek(SEAL_AT)
            file.write(bytes(SEAL_SIZE))
        file.truncate(self.segment_size)
        file.flush()

    def _pieces(self, number: int) -> Iterator[bytes]:
        """Yield the bytes of a segment: its own file's, or those of its parts.

        Parts are deleted once a larger object covers them, so a missing one asks for a new list.
        """
        at = base = number * self.segment_size
        for _ in range(_LISTINGS_MOST):
            if number in self._contents.sizes:
                left_out = at - base
                try:
                    for piece in read_pieces(self.target, base, self.identity):
                        yield piece[left_out:]
                        left_out = max(0, left_out - len(piece))
                except CorruptSegmentError:
                    self._refuse_deleted(number)
                    raise
                return
            try:
                for part in self._contents.parts.get(number, ()):
                    if part.end > at:
                        yield read_part(self.target, part, self.identity)[at - part.first :]
                        at = part.end
            except FileNotFoundError:
                self._contents = self._listed_again()
                continue
            if at >= min(self._end, base + self.segment_size):
                return
            break
        raise CorruptSegmentError(
            f"the parts of this segment from position {at} on are missing: restore them from "
            "another copy of the store",
            path=self.target.name,
            position=at,
        )

    def _refuse_deleted(self, number: int) -> None:
        """Raise `PositionError` if a segment was deleted from the store after it was listed."""
        if archived_name(number * self.segment_size) in self.target.names():
            return
        listed = self._listed_again()
        left = listed.numbers
        if left and left[0] > number:
            self._contents = listed
            self._numbers = frozenset(each for each in self._numbers if each >= left[0])
            raise PositionError(
                "the store's retention deleted this segment: continue at a later position",
                path=self.segment_path(number),
                position=number * self.segment_size,
                first_position=left[0] * self.segment_size,
            )

    def list_again(self) -> None:
        """See what was stored since the last listing."""
        self._contents = self._listed_again()
        self._numbers = frozenset(self._contents.numbers)
        self._end = self._contents.end(self.segment_size)

    def _listed_again(self) -> Contents:
        return read_contents(self.target, self.segment_size)
