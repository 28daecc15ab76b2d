# Finds records in a segment by ordinal, timestamp or offset, from the nearest entry of a sparse
# index on.

cdef uint64_t NEAR_BYTES = 64 << 10  # counting over this distance is as fast as the index


cdef class Finder:
    """Find records for the indexes of a log. One thread at a time, except for `count`.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    """
    cdef readonly Core core
    cdef cl_watch watch

    def __cinit__(self, Core core not None):
        memset(&self.watch, 0, sizeof(self.watch))
        self.watch.position = 0xFFFFFFFFFFFFFFFF
        self.core = core

    cdef cl_reader reader(self, cl_segment *segment, uint64_t passed):
        cdef cl_reader reader
        cl_reader_init(&reader, &self.core.log, NULL)
        reader.careful = True
        reader.from_buffer = self.core.log.pooled and self.core.log.tail != NULL
        reader.passed = passed
        cl_reader_enter(&reader, segment, CL_SEGMENT_HEADER)
        return reader

    def extend(self, SparseIndex index not None, Segment segment not None, uint64_t limit):
        """Extend an index up to `limit`, or to the first record that is not visible yet."""
        cdef cl_segment *held = segment.held()
        cdef cl_reader reader = self.reader(held, 0)
        cdef cl_index grown = index.index
        reader.watch = &self.watch
        if reader.from_buffer:
            # The interpreter's lock keeps the pool from taking the buffer back.
            cl_index_extend(&grown, &reader, limit)
        else:
            self.core.enter()
            with nogil:
                cl_index_extend(&grown, &reader, limit)
            self.core.leave()
        cl_segment_release(held)
        # Other threads may search the index meanwhile: they see the new entries from here on.
        index.index = grown

    def find(self, SparseIndex index not None, Segment segment not None, uint64_t ordinal):
        """Return the offset of the record with that ordinal in the segment, or None."""
        segment.check()
        cdef cl_reader reader = self.reader(segment.segment, index.index.offset)
        cdef uint64_t at = 0
        return at if cl_index_find(&index.index, &reader, ordinal, &at) == CL_OK else None

    def since(self, SparseIndex index not None, Segment segment not None, int64_t timestamp_ns):
        """Return the offset of the first record whose timestamp is not smaller, or None."""
        segment.check()
        cdef cl_reader reader = self.reader(segment.segment, index.index.offset)
        cdef uint64_t at = 0
        return at if cl_index_since(&index.index, &reader, timestamp_ns, &at) == CL_OK else None

    def ordinal(self, SparseIndex index not None, Segment segment not None, uint64_t offset):
        """Return how many records of the segment begin below an offset, and whether a frame begins
        or ends there; None if the frames below are not known yet.
        """
        segment.check()
        cdef cl_reader reader = self.reader(segment.segment, index.index.offset)
        cdef uint64_t ordinal = 0
        if cl_index_ordinal(&index.index, &reader, offset, &ordinal) != CL_OK:
            return None
        return ordinal, reader.offset == offset

    def entry(self, SparseIndex index not None, uint64_t offset, bint before):
        """Return the offset of the last entry before an offset, or of the first one from there on;
        None if there is none.
        """
        cdef size_t below
        if offset == 0:
            below = <size_t>-1
        else:
            below = cl_index_below(&index.index, offset - 1)
        if before:
            return None if below == <size_t>-1 else index.index.entries[below].offset
        below += 1
        return index.index.entries[below].offset if below < index.index.count else None

    cdef int count(self, cl_segment *segment, uint64_t start, uint64_t stop, uint64_t *records):
        """Count the records in [start, stop); both are the start or the end of a frame. Return
        false if they cannot be counted.
        """
        cdef cl_reader reader = self.reader(segment, 0)
        reader.offset = start
        return cl_reader_step_over(
            &reader, stop, 0xFFFFFFFFFFFFFFFF, records
        ) == CL_E_ROLL and reader.offset == stop


cdef void move_anchor(Segment segment, uint64_t offset, uint64_t sequence):
    """Note the sequence of a record: the sequences of records near it are counted from there."""
    segment.anchor_offset = offset
    segment.anchor_sequence = sequence


cdef bint _count_from_anchor(Segment segment, uint64_t offset, uint64_t *sequence):
    cdef Finder finder = segment.finder
    cdef uint64_t anchor = segment.anchor_offset
    cdef uint64_t records = 0
    if offset >= anchor:
        if not finder.count(segment.segment, anchor, offset, &records):
            return False
        sequence[0] = segment.anchor_sequence + records
    else:
        if not finder.count(segment.segment, offset, anchor, &records):
            return False
        sequence[0] = segment.anchor_sequence - records
    move_anchor(segment, offset, sequence[0])
    return True


cdef object sequence_of(Segment segment, uint64_t offset):
    """Return the sequence of the record at an offset of a segment that a tailer has shared.

    Raises
    ------
    SequenceError
        A claim below it is still open.
    ClosedError
        The log was closed, and no sequence near the record is known.
    """
    cdef uint64_t sequence = 0
    cdef uint64_t anchor = segment.anchor_offset
    if segment.index is None:
        raise SequenceError(
            "the sequence of this record is not known: it was not read by a tailer",
            path=segment.path
        )
    if anchor != 0 and (offset - anchor if offset >= anchor else anchor - offset) <= NEAR_BYTES:
        if _count_from_anchor(segment, offset, &sequence):
            return sequence
    try:
        sequence = segment.index.sequence_at(segment.segment.number, offset)
    except ClosedError:
        if anchor == 0 or not _count_from_anchor(segment, offset, &sequence):
            raise
    move_anchor(segment, offset, sequence)
    return sequence


def first_sequence(Segment segment not None, positions):
    """Return the sequence of the first of several records that were read together; `positions`
    are those of the records.
    """
    cdef uint64_t base = segment.segment.base
    cdef uint64_t first = positions[0]
    cdef uint64_t last = positions[len(positions) - 1]
    sequence = sequence_of(segment, first - base)
    if first < last < base + segment.segment.size:
        move_anchor(segment, last - base, sequence + len(positions) - 1)
    return sequence


def sequences_of(segments, positions):
    """Return the sequence of each of several records; `segments` are theirs, in their order."""
    cdef const int64_t[::1] places = positions
    cdef Segment segment = None
    cdef Py_ssize_t index
    cdef list found = []
    following = iter(segments)
    for index in range(places.shape[0]):
        while (segment is None or places[index] < <int64_t>segment.segment.base
                or places[index] >= <int64_t>(segment.segment.base + segment.segment.size)):
            segment = next(following)
        found.append(sequence_of(segment, <uint64_t>places[index] - segment.segment.base))
    return found
