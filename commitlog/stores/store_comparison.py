"""Comparison: a store against the log that is to be stored there."""

from __future__ import annotations

import logging
from bisect import bisect_left
from dataclasses import replace

from commitlog.errors import CorruptSegmentError, LogExistsError, PositionError
from commitlog.extension import HEADER_SIZE, LogFiles, SegmentHeader
from commitlog.stores.archived import archived_name, read_header
from commitlog.stores.store_session import StoreSession
from commitlog.stores.stored_segments import StoredSegments
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import Standing
from commitlog.stores.tail_object import TailObject
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")


class Comparison:
    """Find out where a store ends, and refuse one that has records which the log does not have.

    Such a store belongs to a fork of the log: it was restored from an older state, or two machines
    wrote it.
    """

    def __init__(self, files: LogFiles, target: Target, durable: int) -> None:
        self.segments = StoredSegments(target, files.identity)
        self._files = files
        self._target = target
        self._durable = durable
        self._size = files.identity.segment_size
        self._damaged_from = 1 << 63
        numbers = files.segment_numbers()
        self.first = numbers[0] if numbers else 0

    def compare(self, how: Standing, newest: StoreSession) -> int:
        """Return the position up to which the store has this log.

        Whole segments do not say who put them. Those that go on behind the start of the newest
        session, which is of this log, and that are not its own, are of a fenced writer.
        """
        self._cut(self._late(how, newest))
        common = self.common()
        contents, end = self.segments.contents, self.end()
        beyond = contents.end(self._size) if contents.hole(self._size) is not None else end
        if end > common or beyond > self._durable:
            raise self._forked(common)
        return end

    def end(self) -> int:
        """Return where the records of the store end, without damaged parts of `common`."""
        return min(self.segments.recorded_end(), self._damaged_from)

    def common(self) -> int:
        """Return the position up to which the store and the log have the same records.

        Behind the first difference, nothing is the same.
        """
        contents = self.segments.list_again()
        whole = [number for number in contents.sizes if number >= self.first]
        same = bisect_left(whole, True, key=self._differs)
        if same < len(whole):
            return whole[same] * self._size
        end = self.segments.recorded_end()
        for number in sorted(contents.parts, reverse=True):
            if number < self.first:
                break
            for part in reversed(contents.parts[number]):
                stop = min(part.stop, end, self._durable)
                try:
                    has = part.first < stop and self._has(replace(part, stop=stop), number)
                except CorruptSegmentError:
                    if part.digests is None or stop < part.end:
                        raise
                    self._damaged_from = part.first  # the log has what its name says
                    continue
                if has:
                    return stop
        unstored = [number for number in contents.parts if number >= self.first]
        return min(unstored) * self._size if unstored else end

    def _has(self, part: TailObject, number: int) -> bool:
        """Return whether the log has the bytes of a part, and of its segment before it."""
        base = number * self._size
        tail = StoredTail(self._target, self._files, 1)
        whole = part.digests if part.stop == part.end else None
        try:
            if whole is not None and tail.digest_at(part.end, base) != whole[1]:
                return False
            return tail.has(part)
        except PositionError:  # the log has no such segment
            return False

    def _late(self, how: Standing, newest: StoreSession) -> list[int]:
        """Return the whole segments that only a fenced writer can have put.

        A log that continues its session may have been restored from a backup that is younger than
        that, and then went on. So what differs may be its own: it is not, if the session has left
        the parts of this log, which are deleted once it stores their segment.
        """
        if how not in (Standing.CONTINUES, Standing.PROMOTED, Standing.ADVANCES):
            return []
        whole = [number for number in self.segments.list_again().sizes if number >= self.first]
        behind = [number for number in whole if (number + 1) * self._size > newest.start]
        if how is Standing.CONTINUES:
            behind = [number for number in behind if self._has_parts(number, newest.number)]
        return [number for number in behind if self._differs(number)]

    def _has_parts(self, number: int, session: int) -> bool:
        """Return whether the store has parts of a whole segment by a session, all of this log."""
        base, tail = number * self._size, StoredTail(self._target, self._files, 1)
        named = (TailObject.named(name, self._size) for name in self.segments.contents.covered)
        parts = [part for part in named if part is not None and part.session == session]
        ends = {part.end: part.digests for part in parts if part.first // self._size == number}
        try:
            return bool(ends) and all(
                digests is not None
                and end <= self._durable
                and tail.digest_at(end, base) == digests[1]
                for end, digests in sorted(ends.items())
            )
        except PositionError:  # the log has no such segment
            return False

    def _differs(self, number: int) -> bool:
        """Return whether a whole segment is not one of the log, by its header, or by the frames of
        one that is not sealed here. One that was deleted since the comparison began is no other.
        """
        identity = self._files.identity
        theirs = read_header(self._target, number * self._size, identity)
        ours = self._files.header(number)
        if ours is None:
            return number >= min(self._files.segment_numbers(), default=self.first)
        if ours == theirs:
            return False
        header = SegmentHeader(ours)
        seal = SegmentHeader(theirs).seal_of(identity, number)
        if seal is None or header.seal_of(identity, number) is not None:
            return True
        with self._files.opened_segment(number) as segment:
            _, _, records, _, end, *times_ns = segment.scan(HEADER_SIZE)
        same = (end, records, *times_ns) == (
            seal.end,
            seal.record_count,
            seal.first_timestamp_ns,
            seal.last_timestamp_ns,
            seal.largest_timestamp_ns,
        )
        return seal.segment_id != header.segment_id or not same

    def _cut(self, late: list[int]) -> None:
        if late:
            _logger.warning(
                "%s: deleted %d segments that a fenced writer put too late, from position %d on",
                self._target.name,
                len(late),
                late[0] * self._size,
            )
            self._target.delete([archived_name(number * self._size) for number in late])

    def _forked(self, position: int) -> LogExistsError:
        return LogExistsError(
            f"the store has records at position {position} that this log does not have: the log "
            "was restored from an older state, or another machine writes it; nothing is stored. "
            "Use a new target",
            path=self._target.name,
            position=position,
        )
