"""StoredTail: put the end of a log into a store, in parts that larger ones replace."""

from __future__ import annotations

import os

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.errors import LogExistsError, PositionError
from commitlog.retention.tail_object import TailObject, pack, read_part
from commitlog.retention.target import Target
from commitlog.segment.directory import LogDirectory

_PART_MOST = 8 << 20  # bytes; also the memory that a part takes
_MERGED = 16  # parts of one level that become one of the next


class StoredTail:
    """The parts of segments that are not stored whole, and the position `end` behind the last one.

    After 16 parts that cover up to 8 MiB, one object of all their bytes is put, then the 16 are
    deleted. So a log that grows by a few bytes a second has some dozens of parts, and each byte is
    stored once for each level.
    """

    def __init__(self, target: Target, directory: LogDirectory, level: int, epoch: int = 0) -> None:
        self.end = 0
        self._epoch = epoch
        self._target = target
        self._directory = directory
        self._level = level
        self._parts: list[tuple[int, TailObject]] = []  # with their level
        self._earlier: list[TailObject] = []

    def resume(self, parts: list[TailObject], end: int, least: int) -> None:
        """Continue behind parts that are stored, but not below `least`.

        A segment with parts of an earlier epoch is stored again from its beginning, because its
        fenced writer may still merge and delete those.
        """
        size = self._directory.segment_size
        earlier = [part for part in parts if part.epoch != self._epoch]
        if earlier:
            end = earlier[0].first // size * size
        self._parts = [(0, part) for part in parts if part.first < end]
        self._earlier = [part for part in parts if part.first >= end]
        self.end = max(end, least)

    def delete(self, names: list[str]) -> None:
        """Delete parts that larger objects cover."""
        self._target.delete(names)
        failpoint("parts deleted")

    def has(self, part: TailObject) -> bool:
        """Return whether a stored part holds the bytes of this log."""
        stored = read_part(self._target, part, self._directory.identity)
        # The first page of a segment changes when it is sealed, and has a CRC of its own.
        ours = self._read(part.first, part.end)
        page = HEADER_SIZE if part.first % self._directory.segment_size == 0 else 0
        return stored[page:] == ours[page:]

    def store(self, durable: int) -> None:
        """Put the bytes from the end to a position, none beyond the end of its segment."""
        size = self._directory.segment_size
        while self.end < durable:
            stop = min(durable, self.end + _PART_MOST, (self.end // size + 1) * size)
            part = TailObject(self._epoch, self.end, stop)
            self._put(part)
            self.end = stop
            self._parts.append((0, part))
            self._merge()

    def _merge(self) -> None:
        """Replace the last parts by one, if there are enough of one level in one segment."""
        while len(self._parts) >= _MERGED:
            last = self._parts[-_MERGED:]
            level, first = last[0][0], last[0][1].first
            same = all(each == level for each, _ in last)
            end, size = last[-1][1].end, self._directory.segment_size
            if not same or end - first > _PART_MOST or first // size != (end - 1) // size:
                return
            whole = TailObject(self._epoch, first, end)
            self._put(whole)
            self.delete([part.name for _, part in last])
            self._parts[-_MERGED:] = [(level + 1, whole)]

    def covered(self, number: int) -> None:
        """Delete the parts of a segment that is stored whole."""
        size = self._directory.segment_size
        stored = [*self._earlier, *(part for _, part in self._parts)]
        self.delete([part.name for part in stored if part.first // size <= number])
        self._earlier = [part for part in self._earlier if part.first // size > number]
        self._parts = [each for each in self._parts if each[1].first // size > number]
        self.end = max(self.end, (number + 1) * size)

    def _put(self, part: TailObject) -> None:
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

    def _read(self, first: int, end: int) -> bytes:
        size = self._directory.segment_size
        number, offset = divmod(first, size)
        try:
            with self._directory.opened_file(number) as fd:
                content = bytearray()
                while len(content) < end - first:
                    piece = os.pread(fd, end - first - len(content), offset + len(content))
                    if not piece:
                        break
                    content += piece
        except FileNotFoundError:
            content = bytearray()
        if len(content) < end - first:
            raise PositionError(
                "the segment was deleted before it was stored",
                path=self._directory.segment_path(number),
                position=first,
            )
        return bytes(content)
