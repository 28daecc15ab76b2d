"""StoredSegments: the bytes of a store's segments, from whole objects or from parts."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from commitlog.errors import CorruptSegmentError, PositionError
from commitlog.retention.archived import archived_name, missing, segment_pieces
from commitlog.retention.tail_object import Contents, read_contents, read_part
from commitlog.retention.target import Target
from commitlog.segment.identity import Identity

_LISTINGS_MOST = 5


class StoredSegments:
    """Read segments of a store or an archive. Parts are deleted once a larger object covers them,
    so if one is missing, the store is listed again.
    """

    def __init__(self, target: Target, identity: Identity) -> None:
        self.target = target
        self._identity = identity
        self._size = identity.segment_size
        self._contents: Contents | None = None

    @property
    def contents(self) -> Contents:
        """What the store had when it was listed last."""
        return self.list_again() if self._contents is None else self._contents

    def list_again(self) -> Contents:
        self._contents = read_contents(self.target, self._size)
        return self._contents

    def lists(self, base: int) -> bool:
        """Return whether the last listing has the segment that starts at a position."""
        return base // self._size in self.contents.numbers

    def pieces(self, start: int, stop: int | None = None) -> Generator[bytes, None, None]:
        """Yield the bytes of a segment from position `start` to the end of its object, or of its
        parts, which must reach `stop`. Damage is detected only at the end of an object.

        Raises
        ------
        PositionError
            Retention deleted the segment from the store.
        CorruptSegmentError
            An object is damaged or missing.
        """
        number = start // self._size
        at, end = start, (number + 1) * self._size
        for _ in range(_LISTINGS_MOST):
            try:
                if self._contents is None or number in self._contents.sizes:
                    for piece in self._whole(number, at):
                        yield piece
                        at += len(piece)
                    return
                for part in self._contents.parts.get(number, ()):
                    if part.end > at:
                        yield read_part(self.target, part, self._identity)[at - part.first :]
                        at = part.end
            except FileNotFoundError:
                self.list_again()
                self.refuse_deleted(number)
                continue
            if stop is None or at >= min(stop, end):
                return
            self.list_again()
            self.refuse_deleted(number)
        raise CorruptSegmentError(
            f"the store lacks the parts of this segment from position {at} on, or its listing is "
            "behind: try again, then restore them from another copy of the store",
            path=self.target.name,
            position=at,
        )

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
