"""SegmentHeader: what the first page of a segment says, and its seal."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog._kernel import segments as kernel
from commitlog.segment.identity import Identity

# The smallest 64-bit timestamp.
TIME_SMALLEST = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Seal:
    """The seal of a finished segment: see docs/format.md."""

    segment_id: int
    crc: int
    end: int
    first_sequence: int
    record_count: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    largest_timestamp_ns: int

    @property
    def largest(self) -> int:
        """The largest timestamp; the smallest 64-bit number if the segment has no record."""
        return self.largest_timestamp_ns if self.record_count else TIME_SMALLEST

    @property
    def next_sequence(self) -> int:
        """The sequence of the first record behind the segment."""
        return self.first_sequence + self.record_count


class SegmentHeader:
    """Read the first page of a segment, as a file or another machine gave it.

    Parameters
    ----------
    page : bytes
        The first 4096 bytes; fewer are a header that is not sound.

    Attributes
    ----------
    log_uuid, segment_id, base, segment_size, created_ns
        The fields, sound or not.
    """

    def __init__(self, page: bytes) -> None:
        self._is_whole = len(page) == kernel.HEADER_SIZE
        self._page = page.ljust(kernel.HEADER_SIZE, b"\0")
        self.log_uuid, self.segment_id, self.base, self.segment_size, self.created_ns = (
            kernel.header_fields(self._page)
        )

    def is_of(self, identity: Identity, number: int) -> bool:
        """Return whether this is the sound header of that segment of that log."""
        base, size = number * identity.segment_size, identity.segment_size
        return self._is_whole and kernel.check_header(self._page, identity.uuid, base, size) == 0

    def seal_of(self, identity: Identity, number: int) -> Seal | None:
        """Return the seal of that segment of that log; None if the page has none, or is not its."""
        size = identity.segment_size
        found = kernel.read_seal(self._page, identity.uuid, number * size, size)
        return None if found is None else Seal(*found)

    @property
    def opened_ns(self) -> int | None:
        """When the log rolled into the segment, in nanoseconds since 1970, if the page says so."""
        opened = kernel.read_opened(self._page)
        return None if opened is None else opened[0]

    @staticmethod
    def without_seal(content: bytes) -> bytes:
        """Return the first bytes of a segment without its seal, which holds for all of it."""
        stop = kernel.SEAL_AT + kernel.SEAL_SIZE
        if len(content) < stop:
            return content
        return content[: kernel.SEAL_AT] + bytes(kernel.SEAL_SIZE) + content[stop:]
