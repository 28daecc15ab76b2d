"""LogIndex: finds records of the whole log by sequence and by time, and says which sequence a
position has.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from commitlog._kernel.engine import Core
from commitlog._kernel.readers import Finder
from commitlog._kernel.segments import HEADER_SIZE, Segment, SparseIndex
from commitlog.errors import PositionError, SequenceError
from commitlog.segment import index_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.seal_table import Seal, SealTable
from commitlog.tail.cycles import LogCycles

_ENTRIES_KEPT = 2 << 20  # 32 MiB of them
_WHO = "an index"
_PATIENCE = (
    20  # looks at a claim whose owner may be dead, which takes longer than one look to find out
)
_NAP_S = 0.0001
_WITHOUT_END = 2**64 - 1


class LogIndex:
    """The sparse indexes of one open log. Any thread may ask.

    A sealed segment's index is read from its file, or made anew where that is missing, damaged or
    stale. One that is not sealed yet has an index in memory, which grows with it when it is asked.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    directory : LogDirectory
        Where the files are.
    queue : MappedFileQueue
        Its segments.
    spacing : int
        Records from one entry to the next, of the indexes that are made here.
    writable : bool
        Whether an index that was made anew is kept as a file.
    """

    def __init__(
        self,
        core: Core,
        directory: LogDirectory,
        queue: MappedFileQueue,
        *,
        spacing: int,
        writable: bool,
    ) -> None:
        self.finder = Finder(core)
        self._core = core
        self._directory = directory
        self._queue = queue
        self._spacing = spacing
        self._writable = writable
        self._size: int = core.segment_size
        self._lock = threading.RLock()
        self.seals = SealTable(directory, self._certain_end)
        self.cycles = LogCycles(core, directory, queue, self)
        self._indexes: OrderedDict[int, SparseIndex] = OrderedDict()
        self._firsts: dict[int, int] = {}

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    # --- sequences --------------------------------------------------------------------------------

    def first_sequence(self, number: int) -> int:
        """The sequence of a segment's first record, or of the one that would be.

        Raises
        ------
        SequenceError
            A claim below is open still.
        """
        with self._lock:
            known = self.known_first_sequence(number)
            below = number
            while known is None:
                below -= 1
                known = self.known_first_sequence(below)
            for candidate in range(below, number):
                known += self._count(candidate)
                self._firsts[candidate + 1] = known
            return known

    def known_first_sequence(self, number: int) -> int | None:
        """The same where nothing has to be counted, else None."""
        known = self._firsts.get(number)
        if known is not None:
            return known
        seal = self.seals.get(number)
        if seal is not None:
            known = seal.first_sequence
        elif number <= self._queue.first_number:
            known = 0  # as the sealer has it
        elif (before := self.seals.get(number - 1)) is not None:
            known = before.first_sequence + before.record_count
        if known is not None:
            self._firsts[number] = known
        return known

    def _count(self, number: int) -> int:
        """How many records a segment has that the log has rolled on from."""
        seal = self.seals.get(number)
        if seal is not None:
            return seal.record_count
        with self._queue.held(number, _WHO) as segment:
            if segment is None:
                return 0
            index = self._reaching(segment, self._size)
            if not index.complete:
                raise self._unknown(number * self._size + index.offset)
            return index.records

    def sequence_at(self, number: int, offset: int) -> int:
        """The sequence of the first record at or behind an offset of a segment.

        Raises
        ------
        PositionError
            No frame starts there.
        SequenceError
            A claim below is open still.
        """
        with self._lock:
            first = self.first_sequence(number)
            if offset <= HEADER_SIZE:
                return first
            with self._queue.held(number, _WHO) as segment:
                found = None
                if segment is not None:
                    found = self.finder.ordinal(self._reaching(segment, offset), segment, offset)
            if found is None:
                raise self._unknown(number * self._size + offset)
            ordinal, exact = found
            if not exact:
                raise self._no_record(number * self._size + offset)
            return first + ordinal

    def sequence_of(self, position: int) -> int:
        """The same by position: how many records the log has had before it."""
        number, offset = divmod(position, self._size)
        return self.sequence_at(number, offset)

    def end(self) -> tuple[int, int]:
        """Where what can be counted ends at present: position and sequence of the next record."""
        with self._lock:
            number = self._first_unsealed()
            sequence = self.first_sequence(number)
            while True:
                with self._queue.held(number, _WHO) as segment:
                    if segment is None:
                        return number * self._size + HEADER_SIZE, sequence
                    index = self._reaching(segment, self._size)
                sequence += index.records
                if not index.complete:
                    return number * self._size + index.offset, sequence
                number += 1

    # --- finding ----------------------------------------------------------------------------------

    def position_of(self, sequence: int) -> int:
        """Where the record with a sequence stands; the end, if it is the next one. Of a record that
        was lost to damage, where the next one stands.

        Raises
        ------
        PositionError
            There is no such record (any more, or yet).
        """
        with self._lock:
            first = self._queue.first_number
            stop = self._first_unsealed()
            if sequence >= self.first_sequence(first):
                number = self._last_from(sequence, first, stop)
                if number < stop:
                    return self._in_sealed(number, sequence)
                position = self._in_unsealed(number, sequence)
                if position is not None:
                    return position
            end, behind = self.end()
            raise PositionError(
                f"there is no record with sequence {sequence}: the log's go from "
                f"{self.first_sequence(first)} to {behind - 1}",
                path=self._core.path,
                position=end,
                first_position=first * self._size,
            )

    def _last_from(self, sequence: int, first: int, stop: int) -> int:
        """The last of the segments [first, stop] that begins with this sequence or an earlier
        one.
        """
        low, high = first, stop
        while low < high:
            middle = (low + high + 1) // 2
            if self.first_sequence(middle) <= sequence:
                low = middle
            else:
                high = middle - 1
        return low

    def _in_sealed(self, number: int, sequence: int) -> int:
        with self._queue.held(number, _WHO) as segment:
            if segment is not None:
                index = self._index(segment)
                offset = self.finder.find(index, segment, sequence - self.first_sequence(number))
                if offset is not None:
                    return number * self._size + offset
        return (number + 1) * self._size

    def _in_unsealed(self, number: int, sequence: int) -> int | None:
        before = self.first_sequence(number)
        while True:
            with self._queue.held(number, _WHO) as segment:
                if segment is None:
                    return number * self._size if sequence == before else None
                index = self._reaching(segment, self._size, records=sequence - before)
                offset = self.finder.find(index, segment, sequence - before)
            if offset is not None:
                return number * self._size + offset
            before += index.records
            if not index.complete:
                return number * self._size + index.offset if sequence == before else None
            number += 1

    def position_since(self, timestamp_ns: int) -> int | None:
        """Where the first record stands whose timestamp is not smaller; None where all are
        older.
        """
        with self._lock:
            stop = self._first_unsealed()
            number = self.seals.first_since(timestamp_ns, self._queue.first_number, stop)
            while True:
                with self._queue.held(number, _WHO) as segment:
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
        """Where the last indexed record before a position stands, or the first one from there on;
        None where there is none.
        """
        with self._lock:
            number, offset = divmod(position, self._size)
            while number >= self._queue.first_number:
                with self._queue.held(number, _WHO) as segment:
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
        """The index of a segment that somebody holds, up to an offset at least unless something
        below cannot be seen yet.
        """
        with self._lock:
            return self._reaching(segment, offset)

    def _certain_end(self) -> int:
        """Where the log certainly goes on to: without an end, or to its first bad frame where it
        was not closed and nobody has it open.
        """
        return (
            _WITHOUT_END if self._core.uncertain_from == _WITHOUT_END else self._core.tail_position
        )

    # --- the indexes ------------------------------------------------------------------------------

    def _first_unsealed(self) -> int:
        last = self._core.tail_position // self._size
        return self.seals.sealed_before(self._queue.first_number, last + 1)

    def _reaching(self, segment: Segment, offset: int, records: int | None = None) -> SparseIndex:
        """An index that reaches an offset, or has more than so many records, if these can be
        seen.
        """
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
            index = SparseIndex(segment.id, self._size, self._spacing)
        else:
            index = index_file.read(self._directory, segment.number, seal)[0] or self._make(
                segment, seal
            )
        self._indexes[segment.number] = index
        kept = sum(map(len, self._indexes.values()))
        while kept > _ENTRIES_KEPT and len(self._indexes) > 1:
            _, oldest = self._indexes.popitem(last=False)
            kept -= len(oldest)
        return index

    def _make(self, segment: Segment, seal: Seal) -> SparseIndex:
        index = SparseIndex(segment.id, self._size, self._spacing)
        self.finder.extend(index, segment, self._size)
        if self._writable and index.complete and index.records == seal.record_count:
            index_file.write(self._directory, segment.number, index, seal)
        return index

    # --- refusals ---------------------------------------------------------------------------------

    def _unknown(self, position: int) -> SequenceError:
        return SequenceError(
            "what stands below is not all published or rolled back yet, so that its records "
            "cannot be counted: ask again",
            path=self._core.path,
            position=position,
        )

    def _no_record(self, position: int) -> PositionError:
        return PositionError(
            "no record starts here: use a position that an append or a record gave",
            path=self._core.path,
            position=position,
            first_position=self._queue.first_number * self._size,
        )
