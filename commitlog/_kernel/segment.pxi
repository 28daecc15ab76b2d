# One open segment, and what is done to it outside the hot path.


cdef const uint8_t *expected_uuid(bytes log_uuid) except? NULL:
    """The uuid that a header must have; NULL for None: any."""
    if log_uuid is None:
        return NULL
    return uuid_of(log_uuid)


cdef class Segment:
    """A mapped segment. Holds one reference to the mapping until it is released or dropped."""

    @staticmethod
    cdef Segment take(cl_segment *segment, str path):
        cdef Segment self = Segment.__new__(Segment)
        self.segment = segment
        self.path = path
        return self

    @staticmethod
    def open(
        int dir_fd, str directory, uint64_t number, uint64_t size, bytes log_uuid, bint writable
    ):
        """Open and map a segment file, after checking that accesses through the mapping cannot
        fail.

        Raises
        ------
        PositionError
            There is no such file.
        CorruptSegmentError
            Too short, a damaged header, or another log's.
        UnsupportedVersionError
            Written by a newer format.
        """
        cdef cl_segment *segment = NULL
        cdef const uint8_t *expected = expected_uuid(log_uuid)
        cdef int code, cause
        with nogil:
            code = cl_segment_open(dir_fd, number, size, expected, writable, &segment)
            cause = errno
            if code == CL_OK:
                cl_segment_measure(dir_fd, segment)
        path = os.path.join(directory, f"{number * size:020d}.seg")
        if code != CL_OK:
            raise failure(code, cause, path=path, position=number * size)
        return Segment.take(segment, path)

    def share(self, keeper=None, index=None, first_sequence=None):
        """Return another object with its own reference, which it releases when it is deallocated.
        Views of it are held through `keeper.hold(number, who)`, sequences known through
        `index.sequence_at(number, offset)` and, where it is given, from the first record's own.
        """
        self.check()
        cl_segment_hold(self.segment)
        cdef Segment twin = Segment.take(self.segment, self.path)
        twin.keeper = keeper
        if index is not None:
            twin.index = index
            twin.finder = index.finder
        if first_sequence is not None:
            twin.anchor_offset = CL_SEGMENT_HEADER
            twin.anchor_sequence = first_sequence
        return twin

    cdef int check(self) except -1:
        if self.segment == NULL:
            raise ClosedError(
                "the segment was released: the log is closed, open it again", path=self.path
            )
        return 0

    cdef cl_segment *held(self) except NULL:
        """The segment with one more reference, for work without the interpreter's lock."""
        self.check()
        cl_segment_hold(self.segment)
        return self.segment

    cdef cl_segment *held_at(self, uint64_t offset) except NULL:
        """As `held`, for work that begins at the offset of a frame."""
        if offset % CL_FRAME_ALIGN != 0:
            raise ValueError("not an offset of a frame")
        return self.held()

    cdef uint8_t *bytes_at(self, uint64_t offset, uint64_t length, uint64_t least) except NULL:
        """Where [offset, offset + length) of the file is mapped; `least` is the first offset that
        is allowed.
        """
        self.check()
        if not least <= offset <= self.segment.size or length > self.segment.size - offset:
            raise ValueError(f"{length} bytes at {offset} are not all in the segment")
        return self.segment.map + offset

    def release(self):
        """Release the reference. The last release unmaps the segment."""
        cdef cl_segment *segment = self.segment
        self.segment = NULL
        if segment != NULL:
            with nogil:
                cl_segment_release(segment)

    def __dealloc__(self):
        if self.segment != NULL:
            cl_segment_release(self.segment)
            self.segment = NULL

    @property
    def number(self):
        self.check()
        return self.segment.number

    @property
    def base(self):
        self.check()
        return self.segment.base

    @property
    def size(self):
        self.check()
        return self.segment.size

    @property
    def extent(self):
        """Behind this offset the file was a hole when it was opened."""
        self.check()
        return self.segment.extent

    @property
    def id(self):
        self.check()
        return self.segment.id

    @property
    def references(self):
        """The number of references to the mapping, this object's included."""
        self.check()
        return self.segment.references

    @property
    def buffered(self):
        """Whether claims live in a pool buffer."""
        self.check()
        return self.segment.bytes != self.segment.map

    @property
    def drained(self):
        """Whether its buffer is fully committed and no claim's view leads into it."""
        self.check()
        return self.segment.drained != 0 and self.segment.users == 0

    def prefault(self, uint64_t start, uint64_t stop):
        """Fault pages [start, stop) in for writing."""
        cdef int code, cause
        cdef cl_segment *segment = self.held()
        with nogil:
            code = cl_segment_prefault(segment, start, stop)
            cause = errno
            cl_segment_release(segment)
        if code != CL_OK:
            raise failure(code, cause, path=self.path)

    def flush(self, uint64_t start, uint64_t stop):
        """Make [start, stop) durable."""
        cdef int code, cause
        cdef cl_segment *segment = self.held()
        with nogil:
            code = cl_segment_flush(segment, start, stop)
            cause = errno
            cl_segment_release(segment)
        if code != CL_OK:
            raise failure(code, cause, path=self.path)

    def rewrite(self, uint64_t start, uint64_t stop):
        """Dirty pages [start, stop) again, so that the next flush writes them even where an earlier
        one failed and the system took them for clean."""
        cdef uint64_t offset
        cdef volatile uint8_t *at
        self.check()
        if stop > self.segment.extent:
            stop = self.segment.extent
        start -= start % CL_PAGE_SMALLEST
        for offset in range(start, stop, CL_PAGE_SMALLEST):
            at = self.segment.map + offset
            at[0] = at[0]

    def scan(self, uint64_t start=0, uint64_t stop=0xFFFFFFFFFFFFFFFF):
        """Check every frame in [start, stop): a `ScanResult`-shaped tuple (offset, code, records,
        skipped, end, first_timestamp_ns, last_timestamp_ns, largest_timestamp_ns)."""
        cdef cl_scan scan
        cdef cl_segment *segment = self.held_at(start)
        with nogil:
            cl_segment_scan(segment, start, stop, &scan)
            cl_segment_release(segment)
        return (scan.offset, scan.code, scan.tally.records, scan.skipped, scan.tally.end,
                scan.tally.first_timestamp_ns, scan.tally.last_timestamp_ns,
                scan.tally.largest_timestamp_ns)

    def digest(self, uint64_t start, uint64_t stop, uint64_t known):
        """Add the frames that are whole in [start, stop) to the digest `known`: a tuple (where they
        end, digest). Two copies of the same frames have the same digest."""
        cdef uint64_t end
        cdef cl_segment *segment = self.held_at(start)
        with nogil:
            end = cl_segment_digest(segment, start, stop, &known)
            cl_segment_release(segment)
        return end, known

    def marks(self, uint64_t offset, uint64_t limit):
        """Return the marks of the frames in the file from an offset up to a limit, some at a time:
        (list of producer, number and position; where to continue; the code that ended the
        search)."""
        cdef cl_marked found[256]
        cdef size_t count
        cdef int code
        cdef cl_segment *segment = self.held_at(offset)
        with nogil:
            count = cl_marks_read(
                segment, &offset, min(limit, segment.size), found, 256, &code
            )
            cl_segment_release(segment)
        return [
            (found[at].mark.producer, found[at].mark.number, found[at].position)
            for at in range(count)
        ], offset, code

    def resume(self, uint64_t offset):
        """The offset of the next certain frame after `offset`, or the segment's size."""
        cdef uint64_t found
        cdef cl_segment *segment = self.held_at(offset)
        with nogil:
            found = cl_segment_resume(segment, offset)
            cl_segment_release(segment)
        return found

    def landing(self, uint64_t offset):
        """The offset of the first frame at or behind `offset`, counted from the segment's start."""
        cdef uint64_t found
        cdef cl_segment *segment = self.held_at(offset)
        with nogil:
            found = cl_segment_landing(segment, offset)
            cl_segment_release(segment)
        return found

    def certain_end(self, uint64_t offset, Memory memory=None):
        """The end of the last frame at or behind `offset` that has a valid CRC, in the file or in a
        buffer as large; `offset` when there is none.
        """
        cdef uint64_t found
        self.check()
        cdef const uint8_t *data = self.segment.map
        if memory is not None:
            if memory.size < self.segment.size:
                raise ValueError("the buffer is smaller than the segment")
            memory.hold()
            data = memory.bytes
        cdef cl_segment *segment = self.held()
        with nogil:
            found = cl_segment_certain_end(segment, data, offset)
            cl_segment_release(segment)
        if memory is not None:
            memory.release()
        return found

    def mark_gap(self, uint64_t start, uint64_t stop):
        """Turn zero cells from `start` on into SKIP frames, up to `stop` or the first cell that is
        not zero; where that is. For recovery, under the exclusive lock."""
        cdef uint64_t end
        cdef cl_segment *segment
        self.bytes_at(stop, 0, CL_SEGMENT_HEADER)
        if start % CL_FRAME_ALIGN or stop % CL_FRAME_ALIGN or start < CL_SEGMENT_HEADER:
            raise ValueError("not a range of frames")
        segment = self.held()
        with nogil:
            end = cl_segment_mark_gap(segment, start, stop)
            cl_segment_release(segment)
        return end

    def take_over(self, Memory memory not None, uint64_t offset):
        """Copy the frames that continue at `offset` of a dead pool's buffer into the file, claims
        as SKIP frames: (where they end, how many claims). For recovery, under the exclusive lock.
        """
        cdef uint64_t claims
        self.check()
        if (memory.size < self.segment.size or offset % CL_FRAME_ALIGN != 0
                or offset < CL_SEGMENT_HEADER):
            raise ValueError("the buffer is smaller than the segment, or no frame begins there")
        memory.hold()
        cdef cl_segment *segment = self.held()
        with nogil:
            claims = cl_segment_take_over(segment, memory.bytes, &offset)
            cl_segment_release(segment)
        memory.release()
        return offset, claims

    def nonzero(self, uint64_t start, uint64_t stop):
        """The offset of the first byte in [start, stop) that is not zero, or `stop`."""
        cdef uint64_t found
        cdef cl_segment *segment = self.held()
        with nogil:
            found = cl_segment_nonzero(segment, start, min(stop, segment.size))
            cl_segment_release(segment)
        return found

    def step(self, uint64_t offset, bint buffered=False):
        """Classify the frame at `offset` of the file, or of the pool buffer: (code, bytes to step
        over). The code is 0 for a record, `ROLLED_BACK` for a SKIP, `BUSY` for a claim, `END` for a
        zero cell, `DAMAGE` else.
        """
        cdef cl_record record
        cdef uint64_t step = 0
        self.check()
        if offset >= self.segment.size or offset % CL_FRAME_ALIGN != 0:
            raise ValueError("not an offset of a frame")
        code = cl_record_read(
            self.segment, self.segment.bytes if buffered else self.segment.map, offset, &record,
            &step
        )
        return code, step

    def skip(self, uint64_t offset, uint64_t length):
        """Write a SKIP frame over `length` bytes; 0 reaches to the segment's end. For repair and
        recovery, under the exclusive lock.
        """
        cdef uint64_t cell
        cdef uint8_t *at = self.bytes_at(offset, max(length, sizeof(cell)), CL_SEGMENT_HEADER)
        if offset % CL_FRAME_ALIGN or length % CL_FRAME_ALIGN or length > CL_FRAME_LIMIT:
            raise ValueError("not a range of frames")
        cell = cl_skip_cell(self.segment, <uint32_t>offset, <uint32_t>length)
        cl_headers_erase(self.segment, offset, length)
        memcpy(at, &cell, sizeof(cell))

    def write(self, uint64_t offset, data):
        """Copy bytes into the mapping. For recovery, under the exclusive lock."""
        cdef const uint8_t[::1] source = data
        cdef uint8_t *at = self.bytes_at(offset, source.shape[0], CL_SEGMENT_HEADER)
        if source.shape[0]:
            memcpy(at, &source[0], source.shape[0])

    def read(self, uint64_t offset, uint64_t length):
        """A copy of some bytes of the file."""
        return (<char *>self.bytes_at(offset, length, 0))[:length]

    def seal(self, uint64_t first_sequence, SparseIndex index=None):
        """Write the seal of a segment that is full; False when it is not. If the segment was not
        sealed before, fill a new index with its records.

        Raises
        ------
        CorruptRecordError
            A frame in it is damaged.
        """
        cdef int code
        cdef cl_index *entries = NULL if index is None else &index.index
        cdef cl_segment *segment = self.held()
        with nogil:
            code = cl_segment_seal(segment, first_sequence, entries)
            cl_segment_release(segment)
        if code == CL_E_BUSY:
            return False
        if code != CL_OK:
            raise failure(code, 0, path=self.path, position=self.segment.base)
        return True

    def sealed(self):
        """The seal as (end, first_sequence, record_count, first_timestamp_ns, last_timestamp_ns,
        largest_timestamp_ns), or None.
        """
        cdef cl_header_seal seal
        self.check()
        if cl_segment_sealed(self.segment, &seal) != CL_OK:
            return None
        return (seal.end, seal.first_sequence, seal.record_count, seal.first_timestamp_ns,
                seal.last_timestamp_ns, seal.largest_timestamp_ns)

    @property
    def opened_ns(self):
        """When a roll reached this segment, wall-clock nanoseconds; 0: none has."""
        cdef cl_header_opened opened
        self.check()
        is_known = cl_header_opened_read(self.segment.map, self.segment.id, &opened)
        return opened.opened_ns if is_known else 0

    def view(self, uint64_t offset, uint64_t length):
        """A read-only memoryview of the mapping, which lasts as long as the view does, and counts
        as a hold until then.

        Raises
        ------
        PositionError
            The segment is being deleted.
        """
        self.bytes_at(offset, length, 0)
        held = None
        if self.keeper is not None:
            held = self.keeper.hold(
                self.segment.number, f"a view of the bytes at {self.segment.base + offset}"
            )
            if held is None:
                raise failure(CL_E_ABSENT, 0, path=self.path, position=self.segment.base + offset)
        return memoryview(SegmentView(self, offset, length, held))
