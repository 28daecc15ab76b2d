"""ArchiveSource: the segments of an archive or a store, as a source."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from commitlog.base.host import host
from commitlog.errors import CommitLogError, CorruptSegmentError, PositionError
from commitlog.extension import SegmentHeader, SegmentRef, SegmentSource
from commitlog.stores.archived import archived_name, read_header, read_identity
from commitlog.stores.contents import Contents
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.stored_segments import StoredSegments, lacking
from commitlog.stores.target import Target, target_of

_HEADERS = 16  # requests at a time, by a reader that goes through all headers
_HOLE_BYTES = 64 << 10
_ZEROS = bytes(_HOLE_BYTES)


class ArchiveSource(SegmentSource):
    """The segments that an archive or a store has now.

    If parts are missing before others, a reader is refused, unless it needs only what is below the
    position `before`: see `StoredSegments`.
    """

    kind = "archive"

    def __init__(
        self,
        place: str | os.PathLike[str],
        filesystem: object = None,
        before: int | None = None,
    ) -> None:
        self.target: Target = target_of(place, filesystem)
        self.location = self.target.name
        self.identity = read_identity(self.target)
        self.segment_size = self.identity.segment_size
        self._allows_hole = before is not None
        self._segments = StoredSegments(self.target, self.identity, before)
        self._headers: dict[int, bytes] = {}
        self._see(self._contents)

    @property
    def _contents(self) -> Contents:
        return self._segments.contents

    @property
    def gaps(self) -> list[StoreGap]:
        """What the log deleted before it was stored."""
        return self._contents.gaps

    def recorded_end(self) -> int:
        """Return where the last whole record ends: see `StoredSegments`."""
        return min(self._end, self._segments.recorded_end())

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
        known = [ref.number for ref in self._refs], self._end
        return (listed.numbers, listed.end(self.segment_size)) != known

    # --- a source of segments ---------------------------------------------------------------------

    def segments(self) -> Sequence[SegmentRef]:
        return self._refs

    def end(self) -> int:
        """Return the position behind the last segment, or behind its parts."""
        return self._end

    def check(self) -> None:
        hole = None if self._allows_hole else self._contents.hole(self.segment_size)
        if hole is not None:
            raise lacking(self.location, hole)

    def notes(self) -> list[str]:
        return [
            f"positions {gap.start} to {gap.stop} were deleted from the log before they were "
            f"stored; `commitlog restore --until {gap.start}` restores what is before them"
            for gap in self.gaps
        ]

    def locate(self, number: int) -> str:
        return self.target.path_of(archived_name(number * self.segment_size))

    def header(self, number: int) -> bytes | None:
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
        with host.executor(_HEADERS, self.location) as pool:
            list(pool.map(read, wanted))

    def fill(self, number: int, fd: int) -> None:
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
        is_cut = end < base + self.segment_size
        with self._noticing():
            for piece in self._segments.pieces(base, end):
                # The first piece has the whole header.
                content = SegmentHeader.without_seal(piece) if is_cut and not file.tell() else piece
                for start in range(0, len(content), _HOLE_BYTES):
                    part = content[start : start + _HOLE_BYTES]  # a view compares byte by byte
                    if part == _ZEROS[: len(part)]:
                        file.seek(len(part), os.SEEK_CUR)  # a hole takes no room
                    else:
                        file.write(part)
        if is_cut:
            file.truncate(end - base)
        file.truncate(self.segment_size)
        file.flush()

    def list_again(self) -> None:
        self._see(self._segments.list_again())

    def _see(self, contents: Contents) -> None:
        size = self.segment_size
        self._end = end = contents.end(size)
        self._refs = tuple(
            SegmentRef(
                number,
                contents.sizes.get(number) or contents.part_bytes.get(number, 0),
                number in contents.sizes and (number + 1) * size <= end,
            )
            for number in contents.numbers
        )

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Forget the segments that the store's retention has deleted, then raise the error."""
        try:
            yield
        except PositionError as error:
            first = (error.first_position or 0) // self.segment_size
            self._refs = tuple(ref for ref in self._refs if ref.number >= first)
            raise
