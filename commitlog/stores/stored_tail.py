"""StoredTail: put parts of the end of a log into a store, as `Storing` decides."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator

from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, IOFailureError, LogExistsError, PositionError
from commitlog.extension import HEADER_SIZE, LogFiles
from commitlog.stores.store_session import StoreSession
from commitlog.stores.storing import PART_MOST, StoreEnd, Storing
from commitlog.stores.tail_object import TailObject, pack, read_part, without_seal
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")
_PIECE = 1 << 20
_UNDELETED_MOST = 1000
_NO_SESSION = StoreSession(0, 0, 0, "")


class StoredTail:
    """Put, compare and delete the parts of segments that are not stored whole."""

    def __init__(
        self,
        target: Target,
        files: LogFiles,
        level: int,
        session: StoreSession = _NO_SESSION,
    ) -> None:
        self._session = session
        self._target = target
        self._files = files
        self._size = files.identity.segment_size
        self._level = level
        self._reached = 0, 0  # a position, and the digest of its segment up to there
        self._undeleted: list[str] = []

    def delete(self, names: list[str]) -> None:
        """Delete parts that larger objects cover; a failure leaves them to a later call."""
        names = [*self._undeleted, *names]
        if not names:
            return
        try:
            self._target.delete(names)
        except (CommitLogError, OSError) as error:
            if not self._undeleted:
                _logger.warning(
                    "%s: %d objects that are not needed cannot be deleted, and the store grows: "
                    "grant the right to delete (s3:DeleteObject): %s",
                    self._target.name,
                    len(names),
                    error,
                )
            self._undeleted = names[-_UNDELETED_MOST:]
            return
        self._undeleted = []
        failpoint("parts deleted")

    def has(self, part: TailObject) -> bool:
        """Return whether a stored part holds the bytes of this log."""
        stored = read_part(self._target, part, self._files.identity)
        # The first page of a segment changes when it is rolled into, and has a CRC of its own.
        page = HEADER_SIZE if part.first % self._size == 0 else 0
        return stored[page:] == self._read(part.first, part.stop)[page:]

    def digest_at(self, position: int, base: int) -> int:
        """Return the digest of the segment with that base up to a position."""
        known, reached = self._reached
        if not base < known <= position:
            known, reached = base, 0
        for start in range(max(known, base + HEADER_SIZE), position, _PIECE):
            reached = zlib.crc32(self._read(start, min(start + _PIECE, position)), reached)
        self._reached = position, reached
        return reached

    def store(self, step: StoreEnd, storing: Storing) -> None:
        """Put a part of the end, and replace the last parts by one while there are enough."""
        stop = self._part_stop(step.first, step.stop)
        base = step.first // self._size * self._size
        digests = self.digest_at(step.first, base), self.digest_at(stop, base)
        part = self._part(step.first, stop, digests)
        self._put(part)
        storing.did(part)
        while parts := storing.mergeable():
            self.delete(storing.merged(self._merge(parts)))

    def _part_stop(self, first: int, limit: int) -> int:
        """Return where the next part ends: where a frame does, at most 8 MiB and a frame on."""
        if limit - first <= PART_MOST:
            return limit
        number, offset = divmod(first, self._size)
        base, goal = first - offset, offset + PART_MOST
        with self._files.opened_segment(number) as segment:
            offset = max(offset, HEADER_SIZE)
            while offset < goal:
                found = segment.scan(offset, goal)
                offset = found[0] if found[1] == 0 else segment.resume(found[0])
        return min(base + offset, limit)

    def _part(self, first: int, end: int, digests: tuple[int, int]) -> TailObject:
        return TailObject(self._session.epoch, first, end, self._session.number, digests)

    def _merge(self, parts: list[TailObject]) -> TailObject:
        """Put one object of the bytes of parts."""
        begins, ends = parts[0].digests, parts[-1].digests
        assert begins is not None
        assert ends is not None
        whole = self._part(parts[0].first, parts[-1].end, (begins[0], ends[1]))
        packed_bytes = self._put(whole)
        if (found := self._target.size(whole.name)) != packed_bytes:
            raise IOFailureError(  # else the parts that it covers would be deleted
                f"the store has {found} bytes of a part of {packed_bytes}: check the store",
                path=self._target.path_of(whole.name),
            )
        return whole

    def _put(self, part: TailObject) -> int:
        """Put a part; return how many bytes its object has."""
        content = self._read(part.first, part.end)
        packed = pack(content, self._level)
        placed = self._target.put(part.name, lambda file: file.write(packed), replace=False)
        # If it is there, this call put it and the answer was lost, or an earlier process did.
        if not placed and not self.has(part):
            raise LogExistsError(
                "another writer stored other records at this position, so this log is not stored "
                "any more: use a new target",
                path=self._target.path_of(part.name),
                position=part.first,
            )
        failpoint("part stored")
        return len(packed)

    def _read(self, first: int, end: int) -> bytes:
        size = self._size
        content = b"".join(self._pieces(first, end))
        if len(content) < end - first:
            raise PositionError(
                "the segment was deleted before it was stored",
                path=self._files.location(first // size),
                position=first,
            )
        return without_seal(content, first, size)

    def _pieces(self, first: int, end: int) -> Iterator[bytes]:
        number, offset = divmod(first, self._size)
        left = end - first
        try:
            with self._files.opened_file(number) as fd:
                while left and (piece := os.pread(fd, left, offset)):
                    yield piece
                    offset, left = offset + len(piece), left - len(piece)
        except FileNotFoundError:
            return
