"""Tail objects: the end of a log in a store, before its segment is sealed and stored whole.

A tail object is a zstd frame of the bytes `[first, end)` of one segment. Its name has the epoch of
its writer and both positions, `<epoch>-<first>-<end>.tail.zst`, so a listing shows what is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from commitlog._kernel.segments import HEADER_SIZE, check_header
from commitlog.retention.archived import (
    PART_NAME,
    archived_bases_in,
    compressor,
    damaged,
    decompressed,
    zstandard,
)
from commitlog.retention.store_epoch import epochs_in, read_epoch
from commitlog.retention.target import Target, reading
from commitlog.segment.identity import Identity


@dataclass(frozen=True, order=True)
class TailObject:
    """The bytes from position `first` to `end`, which an appender of `epoch` wrote."""

    epoch: int
    first: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.epoch:010d}-{self.first:020d}-{self.end:020d}.tail.zst"

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
        found = cls(*map(int, match.groups()))
        in_one = found.first < found.end <= (found.first // segment_size + 1) * segment_size
        return found if in_one else None


@dataclass(frozen=True)
class Contents:
    """What a store has: the compressed size of each whole segment, and the parts of others, in the
    order in which they are joined, by segment number. `covered` names parts that are not needed.
    """

    sizes: dict[int, int]
    parts: dict[int, list[TailObject]]
    part_bytes: dict[int, int]
    covered: list[str]

    @property
    def numbers(self) -> list[int]:
        return sorted(self.sizes | self.parts)

    def end(self, segment_size: int) -> int:
        """Return the position at which the last segment ends."""
        if not self.numbers:
            return 0
        last = self.numbers[-1]
        return self.parts[last][-1].end if last in self.parts else (last + 1) * segment_size


def read_contents(target: Target, segment_size: int) -> Contents:
    """List a store. Parts that do not join to the beginning of their segment are left out, and so
    is a segment with a part only, unless it is the last one.
    """
    with reading(target.name):
        listed = target.sizes()
    sizes = {
        base // segment_size: listed[name]
        for name, base in archived_bases_in(listed, segment_size).items()
    }
    objects: dict[int, list[TailObject]] = defaultdict(list)
    named = [TailObject.named(name, segment_size) for name in listed]
    found = [each for each in named if each is not None]
    kept = _before_later_epochs(target, found, epochs_in(list(listed)))
    for each in kept:
        objects[each.first // segment_size].append(each)
    last = max((*sizes, *objects), default=0)
    parts: dict[int, list[TailObject]] = {}
    covered = [each.name for each in set(found).difference(kept)]
    for number in sorted(objects):
        joined = join(objects[number], number * segment_size)
        end = joined[-1].end if joined else 0
        if number in sizes:
            joined, end = [], (number + 1) * segment_size
        elif joined and (number == last or end == (number + 1) * segment_size):
            parts[number] = joined
        covered += [each.name for each in objects[number] if each.end <= end and each not in joined]
    part_bytes = {number: sum(listed[part.name] for part in parts[number]) for number in parts}
    return Contents(dict(sorted(sizes.items())), parts, part_bytes, covered)


def _before_later_epochs(
    target: Target, objects: list[TailObject], epochs: list[int]
) -> list[TailObject]:
    """Leave out what a fenced writer stored behind the start of a later epoch."""
    oldest = min((each.epoch for each in objects), default=0)
    later = [read_epoch(target, number) for number in epochs if number > oldest]
    starts = [(each.number, each.start) for each in later if each is not None]
    return [
        each
        for each in objects
        if all(each.end <= start for number, start in starts if number > each.epoch)
    ]


def join(objects: Iterable[TailObject], start: int) -> list[TailObject]:
    """Return the fewest objects that reach from `start` as far as possible without a gap, those of
    a higher epoch first.
    """
    left = sorted(objects)
    joined: list[TailObject] = []
    at = start
    while True:
        onward = [each for each in left if each.first <= at < each.end]
        if not onward:
            return joined
        best = max(onward, key=lambda each: (each.epoch, each.end))
        joined.append(best)
        at = best.end


def pack(content: bytes, level: int) -> bytes:
    """Compress the bytes of a tail object."""
    packed: bytes = compressor(level).compress(content)
    return packed


def read_part(target: Target, part: TailObject, identity: Identity) -> bytes:
    """Read and check a tail object. If it is gone, raise `FileNotFoundError`; if it is damaged or
    belongs to another log, raise `CorruptSegmentError`.
    """
    path = target.path_of(part.name)
    library = zstandard()
    with reading(path), target.open(part.name) as file:
        try:
            pieces = decompressed(library, file, path, part.first, part.end - part.first)
            content = b"".join(pieces)
        except library.ZstdError as error:
            raise damaged(path, part.first, f"is damaged: {error}") from None
    base, size = part.first - part.first % identity.segment_size, identity.segment_size
    if part.first == base and check_header(content[:HEADER_SIZE], identity.uuid, base, size) != 0:
        raise damaged(path, part.first, "does not have the header of this segment")
    return content
