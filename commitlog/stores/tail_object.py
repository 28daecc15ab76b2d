"""Tail objects: the end of a log in a store, before its segment is sealed and stored whole.

A tail object is a zstd frame of the bytes `[first, end)` of one segment. Its name is
`<epoch>-<first>-<end>-<session>-<follows>-<reaches>.tail.zst`: who wrote it, where it belongs, and
the digests of the segment up to both positions. So a listing shows what is there and what joins.
Earlier releases wrote `<epoch>-<first>-<end>.tail.zst`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from commitlog.extension import HEADER_SIZE, SegmentHeader
from commitlog.stores.archived import (
    PART_NAME,
    compressor,
    damaged,
    decompressed,
    zstandard,
)
from commitlog.stores.target import Target, reading
from commitlog.types import Identity


@dataclass(frozen=True)
class TailObject:
    """The bytes from position `first` to `end`.

    Attributes
    ----------
    epoch, first, end : int
        The epoch of the writer, and the positions.
    session : int
        The session of the writer. Earlier releases had one session in each epoch, of its number.
    digests : tuple of int, or None
        The digests of the segment up to `first` and up to `end`: see `digest`. None in a name of an
        earlier release, whose parts may end inside a record.
    stop : int
        Where it stops to count, because a later session starts there; else `end`.
    """

    epoch: int
    first: int
    end: int
    session: int = 0
    digests: tuple[int, int] | None = None
    stop: int = field(default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", self.stop or self.end)

    @property
    def name(self) -> str:
        place = f"{self.epoch:010d}-{self.first:020d}-{self.end:020d}"
        if self.digests is None:
            return f"{place}.tail.zst"
        follows, reaches = self.digests
        return f"{place}-{self.session:010d}-{follows:08x}-{reaches:08x}.tail.zst"

    @staticmethod
    def is_named(name: str) -> bool:
        """Return whether a name is that of a part."""
        return PART_NAME.match(name) is not None

    @classmethod
    def named(cls, name: str, segment_size: int) -> TailObject | None:
        """Read a name; None if it is not that of a part of one segment."""
        match = PART_NAME.match(name)
        if match is None:
            return None
        epoch, first, end = map(int, match.groups()[:3])
        if not first < end <= (first // segment_size + 1) * segment_size:
            return None
        if match[4] is None:
            return cls(epoch, first, end, epoch)
        return cls(epoch, first, end, int(match[4]), (int(match[5], 16), int(match[6], 16)))


def digest(content: bytes, first: int, segment_size: int, before: int = 0) -> int:
    """Return the digest of a segment up to the end of these bytes, which start at `first`.

    `before` is the digest up to `first`. The header page is left out, because a part of it changes.
    """
    page = max(0, HEADER_SIZE - first % segment_size)
    return zlib.crc32(memoryview(content)[page:], before)


def join(objects: Iterable[TailObject], start: int) -> list[TailObject]:
    """Return the fewest objects that reach from `start` as far as possible without a gap, those of
    a later session first. Each one continues the bytes that the one before ends with.
    """
    left = sorted(objects, key=lambda each: (each.first, each.end, each.session))
    joined: list[TailObject] = []
    at, reached = start, 0
    while True:
        onward = [
            each for each in left if each.first <= at < each.stop and _fits(each, at, reached)
        ]
        if not onward:
            return joined
        best = max(onward, key=lambda each: (each.session, each.stop))
        joined.append(best)
        whole = best.stop == best.end and best.digests is not None
        at, reached = best.stop, best.digests[1] if whole and best.digests is not None else -1


def _fits(part: TailObject, at: int, reached: int) -> bool:
    """Return whether a part continues a segment at a position with that digest; -1: unknown."""
    return part.first < at or part.digests is None or reached in (-1, part.digests[0])


def pack(content: bytes, level: int) -> bytes:
    """Compress the bytes of a tail object."""
    packed: bytes = compressor(level).compress(content)
    return packed


def without_seal(content: bytes, first: int, segment_size: int) -> bytes:
    """Return bytes of a segment without the seal.

    A part is read after the log may have rolled, so the first page may have the seal of records
    that are not in the store, and that another machine never has.
    """
    return content if first % segment_size else SegmentHeader.without_seal(content)


def read_part(target: Target, part: TailObject, identity: Identity) -> bytes:
    """Read and check a tail object, as far as it counts. If it is gone, raise `FileNotFoundError`;
    if it is damaged or belongs to another log, raise `CorruptSegmentError`.
    """
    path, size = target.path_of(part.name), identity.segment_size
    library = zstandard()
    with reading(path), target.open(part.name) as file:
        try:
            pieces = decompressed(library, file, path, part.first, part.end - part.first)
            content = b"".join(pieces)
        except library.ZstdError as error:
            raise damaged(path, part.first, f"is damaged: {error}") from None
    base = part.first - part.first % size
    if part.first == base:
        header = SegmentHeader(content[:HEADER_SIZE])
        if not header.is_of(identity, base // size):
            raise damaged(path, part.first, "does not have the header of this segment")
    if part.digests is not None:
        follows, reaches = part.digests
        if digest(content, part.first, size, follows) != reaches:
            raise damaged(path, part.first, "does not have the bytes that its name says")
    return without_seal(content[: part.stop - part.first], part.first, size)
