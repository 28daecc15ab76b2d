"""StoredTail: put the end of a log into a store, in parts that larger ones replace."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator

from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, IOFailureError, LogExistsError, PositionError
from commitlog.extension import HEADER_SIZE, LogFiles
from commitlog.stores.store_session import StoreSession
from commitlog.stores.tail_object import TailObject, pack, read_part, without_seal
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")
_PART_MOST = 8 << 20  # bytes, and one frame; also the memory that a part takes
_MERGED = 16  # parts of one level that become one of the next
_PIECE = 1 << 20
_UNDELETED_MOST = 1000
_NO_SESSION = StoreSession(0, 0, 0, "")


class StoredTail:
    """The parts of segments that are not stored whole, and the position `end` behind the last one.

    After 16 parts that cover up to 8 MiB, one object of all their bytes is put, then the 16 are
    deleted. So a log that grows by a few bytes a second has some dozens of parts, and each byte is
    stored once for each level.
    """

    def __init__(
        self,
        target: Target,
        files: LogFiles,
        level: int,
        session: StoreSession = _NO_SESSION,
    ) -> None:
        self.end = 0
        self._session = session
        self._target = target
        self._files = files
        self._size = files.identity.segment_size
        self._level = level
        self._parts: list[tuple[int, TailObject]] = []  # with their level
        self._earlier: list[TailObject] = []
        self._reached = 0, 0  # a position, and the digest of its segment up to there
        self._undeleted: list[str] = []

    def resume(self, parts: list[TailObject], end: int, least: int, *, again: bool) -> None:
        """Continue behind parts that are stored, but not below `least`.

        With `again`, segments with parts are stored again from their beginning: the writer of
        those may still merge and delete them.
        """
        size = self._size
        if again and parts:
            end = parts[0].first // size * size
        # A part that counts only in part is no part of a merge.
        known = [] if any(part.stop < part.end for part in parts) else parts
        self._parts = [(0, part) for part in known if part.first < end]
        self._earlier = [part for part in parts if part.first >= end or not known]
        self.end = max(end, least)

    def skip_to(self, position: int) -> None:
        """Continue at a position."""
        self.end = max(self.end, position)

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

    def store(self, durable: int) -> None:
        """Put the bytes from the end to a position, none beyond the end of its segment."""
        size = self._size
        while self.end < durable:
            base, stop = self.end // size * size, self._part_stop(durable)
            follows, reaches = self.digest_at(self.end, base), self.digest_at(stop, base)
            part = self._part(self.end, stop, follows, reaches)
            self._put(part)
            self.end = stop
            self._parts.append((0, part))
            self._merge()

    def _part_stop(self, durable: int) -> int:
        """Return where the next part ends: where a frame does, at most 8 MiB and a frame on."""
        number, offset = divmod(self.end, self._size)
        base = self.end - offset
        limit = min(durable, base + self._size)
        if limit - self.end <= _PART_MOST:
            return limit
        goal = offset + _PART_MOST
        with self._files.opened_segment(number) as segment:
            offset = max(offset, HEADER_SIZE)
            while offset < goal:
                found = segment.scan(offset, goal)
                offset = found[0] if found[1] == 0 else segment.resume(found[0])
        return min(base + offset, limit)

    def _part(self, first: int, end: int, follows: int, reaches: int) -> TailObject:
        session = self._session
        return TailObject(session.epoch, first, end, session.number, (follows, reaches))

    def _merge(self) -> None:
        """Replace the last parts by one, if there are enough of one level in one segment."""
        while len(self._parts) >= _MERGED:
            last = self._parts[-_MERGED:]
            level, first = last[0][0], last[0][1].first
            same = all(each == level and part.digests is not None for each, part in last)
            end, size = last[-1][1].end, self._size
            if not same or end - first > _PART_MOST or first // size != (end - 1) // size:
                return
            begins, ends = last[0][1].digests, last[-1][1].digests
            assert begins is not None
            assert ends is not None
            whole = self._part(first, end, begins[0], ends[1])
            packed_bytes = self._put(whole)
            if (found := self._target.size(whole.name)) != packed_bytes:
                raise IOFailureError(  # else the parts that it covers would be deleted
                    f"the store has {found} bytes of a part of {packed_bytes}: check the store",
                    path=self._target.path_of(whole.name),
                )
            self.delete([part.name for _, part in last])
            self._parts[-_MERGED:] = [(level + 1, whole)]

    def drop_covered(self, number: int) -> None:
        """Delete the parts of a segment that is stored whole."""
        size = self._size
        stored = [*self._earlier, *(part for _, part in self._parts)]
        self.delete([part.name for part in stored if part.first // size == number])
        self._earlier = [part for part in self._earlier if part.first // size > number]
        self._parts = [each for each in self._parts if each[1].first // size > number]
        self.end = max(self.end, (number + 1) * size)

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
