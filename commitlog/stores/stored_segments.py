"""StoredSegments: the bytes of a store's segments, from whole objects or from parts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from commitlog.errors import CorruptSegmentError, PositionError
from commitlog.extension import FRAME_ALIGN, HEADER_SIZE
from commitlog.stores.archived import archived_name, damaged, missing, segment_pieces
from commitlog.stores.contents import Contents, read_contents
from commitlog.stores.store_session import StoreSession
from commitlog.stores.tail_object import TailObject, digest, read_part
from commitlog.stores.target import Target
from commitlog.types import Identity

_LISTINGS_MOST = 5
_LENGTH, _SKIP = (1 << 28) - 1, 1 << 29  # of the word of a cell: docs/format.md


class StoredSegments:
    """Read segments of a store or an archive. Parts are deleted once a larger object covers them,
    so if one is missing, the store is listed again.

    If the store has a recorded gap, these are the segments behind it, or those before it that are
    needed for a position.
    """

    def __init__(self, target: Target, identity: Identity, before: int | None = None) -> None:
        self._before = before
        self.target = target
        self._identity = identity
        self._size = identity.segment_size
        self._contents: Contents | None = None
        self._sessions: dict[int, StoreSession] = {}

    @property
    def contents(self) -> Contents:
        """What the store had when it was listed last."""
        return self.list_again() if self._contents is None else self._contents

    def list_again(self) -> Contents:
        found = read_contents(self.target, self._size, self._sessions)
        self._contents = found.between_gaps(self._size, self._before)
        return self._contents

    def lists(self, base: int) -> bool:
        """Return whether the last listing has the segment that starts at a position."""
        return base // self._size in self.contents.numbers

    def pieces(self, start: int, stop: int | None = None) -> Generator[bytes, None, None]:
        """Yield the bytes of a segment from position `start` to the end of its object, or of its
        parts, which must reach `stop`, or where the last part ends. Damage is detected only at the
        end of an object.

        Raises
        ------
        PositionError
            Retention deleted the segment from the store.
        CorruptSegmentError
            An object is damaged or missing.
        """
        number = start // self._size
        at, end = start, (number + 1) * self._size
        known = 0 if start % self._size == 0 else None
        for _ in range(_LISTINGS_MOST):
            try:
                if self._contents is None or number in self._contents.sizes:
                    for piece in self._whole(number, at):
                        yield piece
                        at += len(piece)
                    return
                for part in self._contents.parts.get(number, ()):
                    if part.stop > at:
                        content = self._continued(part, at, known)
                        yield content
                        known = None if known is None else digest(content, at, self._size, known)
                        at = part.stop
            except FileNotFoundError:
                self.list_again()
                self.refuse_deleted(number)
                continue
            contents = self.contents
            needed = contents.stops.get(number, end) if stop is None else min(stop, end)
            if at >= needed and at > number * self._size:
                return
            self.list_again()
            self.refuse_deleted(number)
        raise lacking(self.target.name, at)

    def recorded_end(self) -> int:
        """Return where the last record ends of those that join, by the last listing.

        A part of an earlier release may end inside a record, of which the store then has a piece.
        """
        contents = self.contents
        last = max(contents.numbers, default=0)
        if last not in contents.parts:
            return contents.end(self._size)
        parts = contents.parts[last]
        if not parts:
            return last * self._size
        if parts[-1].digests is not None or parts[-1].stop < parts[-1].end:
            return parts[-1].stop
        return whole_frames_end(self.pieces(last * self._size, parts[-1].stop), last * self._size)

    def _continued(self, part: TailObject, at: int, known: int | None) -> bytes:
        """Read a part from a position on; `known` is the digest of the segment up to there."""
        content = read_part(self.target, part, self._identity)
        follows = None if part.digests is None or part.first != at else part.digests[0]
        if None not in (known, follows) and known != follows:
            raise damaged(
                self.target.path_of(part.name), at, "does not continue the part before it"
            )
        return content[at - part.first :]

    def _whole(self, number: int, start: int) -> Iterator[bytes]:
        left_out = start - number * self._size
        for piece in segment_pieces(self.target, number * self._size, self._identity):
            if left_out < len(piece):
                yield piece[left_out:]
            left_out = max(0, left_out - len(piece))

    def refuse_deleted(self, number: int) -> None:
        """Raise if the last listing shows that a segment was deleted, or that it is missing."""
        numbers = self.contents.numbers
        if number in numbers:
            return
        base = number * self._size
        path = self.target.path_of(archived_name(base))
        if not numbers or numbers[0] < number:
            raise missing(path, base)
        raise PositionError(
            "the store's retention deleted this segment: continue at a later position",
            path=path,
            position=base,
            first_position=numbers[0] * self._size,
        )


def lacking(path: str, position: int) -> CorruptSegmentError:
    """Return the error for parts that are missing before others."""
    return CorruptSegmentError(
        f"the store lacks the parts of a segment from position {position} on, or its listing is "
        "behind: try again, restore them from another copy of the store, or restore the log up to "
        f"position {position}",
        path=path,
        position=position,
    )


def whole_frames_end(pieces: Iterable[bytes], base: int) -> int:
    """Return where the last whole frame ends in the first bytes of a segment."""
    at, start, content = HEADER_SIZE, 0, bytearray()
    for piece in pieces:
        content += piece
        while at + 4 <= start + len(content):
            word = int.from_bytes(content[at - start : at - start + 4], "little")
            length = word & _LENGTH
            if word & _SKIP and not length:
                return base + start + len(content)  # it reaches to the segment's end
            if not length or at + length > start + len(content):
                break
            at += -(-length // FRAME_ALIGN) * FRAME_ALIGN
        done = min(at - start, len(content))
        del content[:done]
        start += done
    return base + at
