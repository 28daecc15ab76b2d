"""ArchivedDirectory: present an archive as a log's directory to readers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from commitlog._kernel.segments import SEAL_AT, SEAL_SIZE, Segment
from commitlog.errors import CommitLogError, CorruptSegmentError, PositionError
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import Seal, SealTable
from commitlog.segment.segment_cache import SegmentCache
from commitlog.stores.archived import archived_name, read_header, read_identity
from commitlog.stores.contents import Contents
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.stored_segments import StoredSegments, lacking
from commitlog.stores.target import Target, target_of

_HEADERS = 16  # requests at a time, by a reader that goes through all headers
_HOLE_BYTES = 64 << 10
_ZEROS = bytes(_HOLE_BYTES)


class ArchivedDirectory(LogDirectory):
    """The segments that an archive or a store has now, each decompressed on first use into a
    `SegmentCache` of `cache_bytes`. `before` is as in `StoredSegments`.
    """

    idle_kept = 1
    kind = "archive"

    def __init__(
        self,
        place: str | os.PathLike[str],
        cache_bytes: int,
        filesystem: object = None,
        before: int | None = None,
    ) -> None:
        self.target: Target = target_of(place, filesystem)
        identity = read_identity(self.target)
        self.segment_size = identity.segment_size
        self._segments = StoredSegments(self.target, identity, before)
        self._see(self._contents)
        self._headers: dict[int, bytes] = {}
        self._cache = SegmentCache(
            identity.segment_size,
            cache_bytes,
            write=self._fill,
            has=self.is_whole,  # parts may be a whole segment when it is their turn
            path_of=self.segment_path,
        )
        try:
            super().__init__(self._cache.folder, identity)
        except BaseException:
            self._cache.close()
            raise
        self.path = self.target.name

    @property
    def _contents(self) -> Contents:
        return self._segments.contents

    def forked(self) -> None:
        self._cache.forked()

    def close(self) -> None:
        super().close()
        self._cache.close()

    def find_end(self) -> int:
        """Return the position behind the last segment, or behind its parts."""
        return self._end

    @property
    def gaps(self) -> list[StoreGap]:
        """What the log deleted before it was stored."""
        return self._contents.gaps

    def recorded_end(self) -> int:
        """Return where the last whole record ends: see `StoredSegments`."""
        return min(self._end, self._segments.recorded_end())

    def refuse_hole(self) -> None:
        """Raise if parts are missing before others."""
        hole = self._contents.hole(self.segment_size)
        if hole is not None:
            raise lacking(self.path, hole)

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

    def is_whole(self, number: int) -> bool:
        """Return whether a segment was there as one object, and not as parts, when the store was
        listed.
        """
        return number in self._contents.sizes and (number + 1) * self.segment_size <= self._end

    def part_start(self, position: int) -> int:
        """Return the start of the last part that begins at or before a position, else the base of
        its segment. A part of an earlier release may begin inside a record.
        """
        number, offset = divmod(position, self.segment_size)
        parts = self._contents.parts.get(number, ())
        return max(
            (part.first for part in parts if part.first <= position and part.digests is not None),
            default=position - offset,
        )

    def last_epoch(self) -> int | None:
        """Return the epoch of the last part; None if the last segment is whole."""
        parts = self._contents.parts.get(max(self._contents.numbers, default=0), ())
        return parts[-1].epoch if parts else None

    def has_changed(self) -> bool:
        """List the store; return whether its beginning or its end has changed."""
        listed = self._segments.list_again()
        known = self.segment_numbers(), self._end
        return (listed.numbers, listed.end(self.segment_size)) != known

    def disk_bytes(self, number: int) -> int:
        """Return a segment's compressed size in the archive; 0 if it is not there."""
        contents = self._contents
        return contents.sizes.get(number) or contents.part_bytes.get(number, 0)

    def whole_disk_bytes(self) -> int:
        return sum(map(self.disk_bytes, self._numbers))

    def read_header(self, number: int) -> bytes | None:
        if number in self._cache:
            page = super().read_header(number)
            if page is not None:  # else the cache has just dropped it
                return page
        if number not in self._contents.sizes:
            return None
        if number not in self._headers:
            if number - 1 in self._headers:
                self._read_headers_ahead(number)
            if number not in self._headers:
                self._headers[number] = self._stored_header(number)
        return self._headers[number]

    def _stored_header(self, number: int) -> bytes:
        try:
            return read_header(self.target, number * self.segment_size, self.identity)
        except CorruptSegmentError:
            with self._noticing():
                self._segments.list_again()
                self._segments.refuse_deleted(number)
            raise

    def _read_headers_ahead(self, number: int) -> None:
        """Read the next headers at the same time. A header that cannot be read is read again when
        it is needed.
        """

        def read(each: int) -> None:
            with contextlib.suppress(CommitLogError):
                self._headers[each] = self._stored_header(each)

        onward = range(number, number + _HEADERS)
        wanted = [each for each in onward if each in self._contents.sizes.keys() - self._headers]
        with ThreadPoolExecutor(_HEADERS) as pool:
            list(pool.map(read, wanted))

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        self.fetch(number)
        return super().open_segment(number, writable=writable)

    def fetch(self, number: int) -> None:
        """Decompress an archived segment into the temporary folder, unless it is there."""
        if number in self._numbers:
            self._cache.fetch(number)

    def _fill(self, number: int, fd: int) -> None:
        """Write a segment, as far as its parts join: a reader meets damage where one is missing."""
        joined = self._contents.joined_end(number, self.segment_size)
        end = min(joined, self._end) if number in self._contents.parts else self._end
        with open(fd, "wb", closefd=False) as file:
            self.unpack(number, file, end)

    def unpack(self, number: int, file: BinaryIO, end: int) -> None:
        """Write a segment to a file, up to a position at which a record begins or ends, and without
        a seal if that is in this segment. Zeros become holes.
        """
        base = number * self.segment_size
        with self._noticing():
            for piece in self._segments.pieces(base, end):
                for start in range(0, len(piece), _HOLE_BYTES):
                    part = piece[start : start + _HOLE_BYTES]  # a view compares byte by byte
                    if part == _ZEROS[: len(part)]:
                        file.seek(len(part), os.SEEK_CUR)  # a hole takes no room
                    else:
                        file.write(part)
        if end < base + self.segment_size:
            file.truncate(end - base)
            file.seek(SEAL_AT)
            file.write(bytes(SEAL_SIZE))
        file.truncate(self.segment_size)
        file.flush()

    def list_again(self) -> None:
        """List the store again."""
        self._see(self._segments.list_again())

    def _see(self, contents: Contents) -> None:
        self._numbers = frozenset(contents.numbers)
        self._end = contents.end(self.segment_size)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Forget the segments that the store's retention has deleted, then raise the error."""
        try:
            yield
        except PositionError as error:
            first = (error.first_position or 0) // self.segment_size
            self._numbers = frozenset(each for each in self._numbers if each >= first)
            raise
