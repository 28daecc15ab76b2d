"""LogIndex: find a log's records by sequence and by time, and the sequence of a position."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict

from commitlog._kernel.readers import Finder
from commitlog._kernel.segments import HEADER_SIZE, Segment, SparseIndex
from commitlog.errors import CorruptSegmentError, PositionError, SequenceError
from commitlog.segment import index_file
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.seal_table import SealTable
from commitlog.segment.segment_header import Seal
from commitlog.tail.postings import LogPostings

_ENTRIES_KEPT = 2 << 20  # 32 MiB
_INDEXES_KEPT = 1 << 10
_WHO = "an index"
_PATIENCE = 20  # a claim of a dead owner is rolled back only after several polls
_NAP_S = 0.0001
_WITHOUT_END = 2**64 - 1
# A close extends the index file of the last segment. Below the first size, a reader scans the rest
# as fast. The second size bounds the scan to about 10 ms.
_FILED_SMALLEST = 1 << 20
_FILED_LARGEST = 64 << 20


class LogIndex:
    """The sparse indexes of one open log. Any thread may call.

    A sealed segment's index is read from its file, or rebuilt if the file is missing, damaged or
    stale; a `writable` log writes it then. An unsealed segment has an index in memory, which begins
    with what the last close wrote to its file and is extended on use. A new index has an entry
    every `spacing` records.
    """

    def __init__(self, queue: MappedFileQueue, *, spacing: int, writable: bool) -> None:
        self.queue = queue
        self.finder = Finder(queue.core)
        self._core = queue.core
        self._directory = queue.directory
        self._spacing = spacing
        self._writable = writable
        self._size: int = queue.core.segment_size
        self._lock = threading.RLock()
        self.seals = SealTable(queue.directory, self._certain_end)
        self.postings = LogPostings(queue, self.seals, writable=writable)
        self._indexes: OrderedDict[int, SparseIndex] = OrderedDict()
        self._firsts: dict[int, int] = {}
        self._filed_position = 0  # where the index file of the unsealed segment ends

    def forked(self) -> None:
        """Replace the lock in the child of a fork: a thread of the parent may have held it."""
        self._lock = threading.RLock()
        self.postings.forked()

    # --- sequences --------------------------------------------------------------------------------

    def first_sequence(self, number: int) -> int:
        """Return the sequence of a segment's first record, present or future. If a claim below is
        still open, raise `SequenceError`.
        """
        with self._lock:
            known = self.known_first_sequence(number)
            if known is None:
                self._check_reached(number)
            below = number
            while known is None:
                below -= 1
                known = self.known_first_sequence(below)
            for candidate in range(below, number):
                known += self._count(candidate)
                self._firsts[candidate + 1] = known
            return known

    def _check_reached(self, number: int) -> None:
        """Refuse a segment that no watermark can have reached: neither it nor the one before is
        there.
        """
        if not self._directory.has(number) and not self._directory.has(number - 1):
            raise CorruptSegmentError(
                "a position in `cursors` is behind the last segment: close every handle, remove "
                "`cursors`, and open the log for writing",
                path=self._core.path,
                position=number * self._size,
            )

    def known_first_sequence(self, number: int) -> int | None:
        """Return the first sequence of a segment if it is known without a scan, else None."""
        known = self._firsts.get(number)
        if known is not None:
            return known
        seal = self.seals.get(number)
        if seal is not None:
            known = seal.first_sequence
        elif number <= self.queue.first_number:
            known = 0  # without seals, sequences count from the oldest segment
        elif (before := self.seals.get(number - 1)) is not None:
            known = before.first_sequence + before.record_count
        if known is not None:
            self._firsts[number] = known
        return known

    def _count(self, number: int) -> int:
        seal = self.seals.get(number)
        if seal is not None:
            return seal.record_count
        with self.queue.held(number, _WHO) as segment:
            if segment is None:
                return 0
            index = self._reaching(segment, self._size)
            if not index.complete:
                raise self._unknown(number * self._size + index.offset)
            return index.records

    def sequence_at(self, number: int, offset: int) -> int:
        """Return the sequence of the first record at or behind an offset of a segment.

        If no frame starts there, raise `PositionError`; if a claim below is still open,
        `SequenceError`.
        """
        with self._lock:
            first = self.first_sequence(number)
            if offset <= HEADER_SIZE:
                return first
            with self.queue.held(number, _WHO) as segment:
                found = None
                if segment is not None:
                    found = self.finder.ordinal(self._reaching(segment, offset), segment, offset)
            if found is None:
                raise self._unknown(number * self._size + offset)
            ordinal, exact = found
            if not exact:
                raise PositionError(
                    "no record starts here: use a position that append() returned or that a "
                    "record has",
                    path=self._core.path,
                    position=number * self._size + offset,
                    first_position=self.queue.first_remaining() * self._size,
                )
            return first + ordinal

    def sequence_of(self, position: int) -> int:
        """Return the sequence of a position: how many records the log had before it."""
        number, offset = divmod(position, self._size)
        return self.sequence_at(number, offset)

    def end(self) -> tuple[int, int]:
        """Return where counting ends at present: position and sequence of the next record."""
        with self._lock:
            number = self._first_unsealed()
            sequence = self.first_sequence(number)
            while True:
                with self.queue.held(number, _WHO) as segment:
                    if segment is None:
                        return number * self._size + HEADER_SIZE, sequence
                    index = self._reaching(segment, self._size)
                sequence += index.records
                if not index.complete:
                    return number * self._size + index.offset, sequence
                number += 1

    # --- finding ----------------------------------------------------------------------------------

    def position_of(self, sequence: int) -> int:
        """Return the position of the record with a sequence.

        For the next sequence that is the end; for a record lost to damage, the record behind it. If
        the record was deleted, or is not appended yet, raise `PositionError`.
        """
        with self._lock:
            first = self.queue.first_number
            stop = self._first_unsealed()
            if sequence >= self.first_sequence(first):
                number = self._last_from(sequence, first, stop)
                if number < stop:
                    return self._in_sealed(number, sequence)
                position = self._in_unsealed(number, sequence)
                if position is not None:
                    return position
            end, behind = self.end()
            first = self.queue.first_remaining()
            oldest = self.first_sequence(first)
            known = (
                f"the log's sequences go from {oldest} to {behind - 1}"
                if oldest < behind
                else f"the log has no records, and the next one gets sequence {behind}"
            )
            raise PositionError(
                f"there is no record with sequence {sequence}: {known}",
                path=self._core.path,
                position=end,
                first_position=first * self._size,
            )

    def _last_from(self, sequence: int, first: int, stop: int) -> int:
        """Return the last of the segments [first, stop] that begins at or before a sequence."""
        return first + bisect_right(range(first + 1, stop + 1), sequence, key=self.first_sequence)

    def _in_sealed(self, number: int, sequence: int) -> int:
        with self.queue.held(number, _WHO) as segment:
            if segment is not None:
                index = self._index(segment)
                offset = self.finder.find(index, segment, sequence - self.first_sequence(number))
                if offset is not None:
                    return number * self._size + offset
        return (number + 1) * self._size

    def _in_unsealed(self, number: int, sequence: int) -> int | None:
        before = self.first_sequence(number)
        while True:
            with self.queue.held(number, _WHO) as segment:
                if segment is None:
                    return number * self._size if sequence == before else None
                index = self._reaching(segment, self._size, records=sequence - before)
                offset = self.finder.find(index, segment, sequence - before)
            if offset is not None:
                return number * self._size + offset
            before += index.records
            if sequence < before:  # the record was damaged after it was counted
                return number * self._size + index.offset
            if not index.complete:
                return number * self._size + index.offset if sequence == before else None
            number += 1

    def position_since(self, timestamp_ns: int) -> int | None:
        """Return the position of the first record that is not older; None if all are older."""
        with self._lock:
            stop = self._first_unsealed()
            number = self.seals.first_since(timestamp_ns, self.queue.first_number, stop)
            while True:
                with self.queue.held(number, _WHO) as segment:
                    if segment is None:
                        return None
                    index = (
                        self._index(segment)
                        if number < stop
                        else self._reaching(segment, self._size)
                    )
                    offset = (
                        self.finder.since(index, segment, timestamp_ns)
                        if index.largest_ns >= timestamp_ns
                        else None
                    )
                if offset is not None:
                    return number * self._size + offset
                if number >= stop and not index.complete:
                    return None
                number += 1

    def entry(self, position: int, *, before: bool) -> int | None:
        """Return the position of the last indexed record before a position, or of the first from
        there on; None if there is none.
        """
        with self._lock:
            number, offset = divmod(position, self._size)
            if number > self.queue.first_number:
                self._check_reached(number)
            while number >= self.queue.first_number:
                with self.queue.held(number, _WHO) as segment:
                    if segment is None and not before:
                        return None
                    if segment is not None:
                        index = self._reaching(segment, offset if before else self._size)
                        found = self.finder.entry(index, offset, before)
                        if found is not None:
                            return number * self._size + found
                        if not before and not index.complete:
                            return None
                number, offset = (number - 1, self._size) if before else (number + 1, 0)
            return None

    def reaching(self, segment: Segment, offset: int) -> SparseIndex:
        """Return the index of a held segment, extended to an offset, or to the first claim below
        it that is still open.
        """
        with self._lock:
            return self._reaching(segment, offset)

    def file_unsealed(self) -> None:
        """Write the index of the last segment up to the durable end.

        Do nothing if the file would spare a later handle only a short scan.
        """
        flushed = self._core.flushed_position
        number, durable = divmod(flushed, self._size)
        with self._lock, self.queue.held(number, _WHO) as segment:
            if segment is None or self.seals.get(number) is not None:
                return
            scanned = max(self._index(segment).offset, HEADER_SIZE)
            if flushed - max(self._filed_position, segment.base) < _FILED_SMALLEST:
                return
            index = self._reaching(segment, min(durable, scanned + _FILED_LARGEST))
            if index.offset <= durable:
                index_file.write_unsealed(self._directory, segment, index)

    def _certain_end(self) -> int:
        """Return the position up to which the frames are valid: no limit for a sound log.

        If the log was not closed and no process has it open, it is that of the first bad frame.
        """
        return (
            _WITHOUT_END if self._core.uncertain_from == _WITHOUT_END else self._core.tail_position
        )

    # --- the indexes ------------------------------------------------------------------------------

    def _first_unsealed(self) -> int:
        last = self._core.tail_position // self._size
        return self.seals.sealed_before(self.queue.first_number, last + 1)

    def _reaching(self, segment: Segment, offset: int, records: int | None = None) -> SparseIndex:
        """Extend a segment's index to an offset or beyond so many records, as far as visible."""
        index = self._index(segment)
        for _ in range(_PATIENCE):
            if index.offset >= offset or (records is not None and index.records > records):
                break
            self.finder.extend(index, segment, offset)
            position = segment.base + index.offset
            if index.offset >= offset or position >= self._core.tail_position:
                break
            time.sleep(_NAP_S)
        return index

    def _index(self, segment: Segment) -> SparseIndex:
        index = self._indexes.get(segment.number)
        if index is not None and index.segment_id == segment.id:
            self._indexes.move_to_end(segment.number)
            return index
        seal = self.seals.get(segment.number)
        if seal is None:
            index = self._read_unsealed(segment)
        else:
            index = index_file.read(self._directory, segment.number, seal)[0] or self._make(
                segment, seal
            )
        self._indexes[segment.number] = index
        kept = sum(map(len, list(self._indexes.values())))  # a finaliser may add one meanwhile
        while len(self._indexes) > 1 and (
            kept > _ENTRIES_KEPT or len(self._indexes) > _INDEXES_KEPT
        ):
            _, oldest = self._indexes.popitem(last=False)
            kept -= len(oldest)
        return index

    def _read_unsealed(self, segment: Segment) -> SparseIndex:
        index, _ = index_file.read_unsealed(self._directory, segment)
        if index is None or segment.base + index.offset >= self._core.tail_position:
            return SparseIndex(segment.id, self._size, self._spacing)
        self._filed_position = segment.base + index.offset
        return index

    def _make(self, segment: Segment, seal: Seal) -> SparseIndex:
        index = SparseIndex(segment.id, self._size, self._spacing)
        self.finder.extend(index, segment, self._size)
        if self._writable and index.complete and index.records == seal.record_count:
            index_file.write(self._directory, segment.number, index, seal)
        return index

    def _unknown(self, position: int) -> SequenceError:
        return SequenceError(
            "the records before this position cannot be counted yet, because a claim among them "
            "is still open: try again",
            path=self._core.path,
            position=position,
        )
