# Reading backward: a reader that can turn around at any point.

cdef uint32_t STRETCH_LEAST = 256
cdef int PATIENCE = 20  # looks at a claim whose owner may be dead, which takes longer than one look to find out
cdef int64_t NAP_NS = 100_000
cdef uint64_t SIGNALS_EVERY = 4096  # records between two looks whether Ctrl-C was pressed


cdef class BackwardReader(Reader):
    """A `Reader` with two directions. Subclasses say how the segment before is found (`open_before`) and where its index is (`index_of`).
    """

    def __cinit__(self, *args, **kwargs):
        memset(&self.stretch, 0, sizeof(self.stretch))

    def __dealloc__(self):
        free(self.stretch.offsets)

    def turn(self, bint backward):
        """Read in that direction from now on; its place stays."""
        self.guard()
        self.turned = backward

    @property
    def backward(self):
        """It reads backward."""
        return bool(self.turned)

    def pass_to_key(self, bytes key not None):
        """Read on to the next record with a key; the place from which `read` gives it, or None where there is none."""
        cdef cl_record native
        cdef const char *wanted = key
        cdef size_t length = len(key)
        cdef uint64_t passed = 0
        before = self.position
        while self.next_record(&native) == CL_OK:
            if native.key != NULL and native.key_length == length and memcmp(native.key, wanted, length) == 0:
                return before
            before = self.position
            passed += 1
            if passed % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()
        return None

    def open_before(self, number, place):
        """The `Segment` to go on in, which is the one that `place` lies in or the one before; None where the log begins."""
        raise NotImplementedError

    def index_of(self, segment, offset):
        """The `SparseIndex` of a segment, which reaches up to an offset unless something below cannot be seen yet."""
        raise NotImplementedError

    cdef int enter_before(self) except -1:
        """Into the segment that the reader's place is the end of, or lies in; false where nothing comes before."""
        cdef uint64_t size = self.core.log.segment_size
        cdef uint64_t position = self.pending
        cdef uint64_t number, offset
        cdef Segment segment
        if self.segment is not None:
            position = self.segment.segment.base + self.reader.offset
        number = position // size
        offset = position % size
        if offset <= CL_SEGMENT_HEADER:
            if number == 0:
                return False
            number -= 1
            offset = size
        self.busy = True
        try:
            segment = self.open_before(number, position)
        finally:
            self.rest()
        if segment is None:
            return False
        segment.check()
        if segment.segment.number != number:
            raise ValueError(f"segment {segment.segment.number} is not number {number}")
        self.segment = segment
        self.index = None
        cl_reader_enter(&self.reader, segment.segment, offset)
        return True

    cdef void keep_to_flushed(self):
        """Above what is flushed there is nothing to see for a reader of that alone."""
        cdef uint64_t base = self.segment.segment.base
        cdef uint64_t flushed = cl_load(&self.core.log.cursors.flushed.value)
        if self.reader.flushed_only and base + self.reader.offset > flushed:
            self.reader.offset = max(flushed - base, <uint64_t>CL_SEGMENT_HEADER) if flushed > base else CL_SEGMENT_HEADER

    cdef int fill_stretch(self) except? -100:
        """Go over the frames before the reader's place; CL_E_BUSY where a claim among them is not resolved."""
        cdef uint64_t start = CL_SEGMENT_HEADER
        cdef size_t entry
        cdef int code = CL_E_BUSY
        self.keep_to_flushed()
        if self.reader.offset <= CL_SEGMENT_HEADER:
            return CL_OK
        if self.index is None or self.index.segment_id != self.segment.segment.id or self.index.index.offset < self.reader.offset:
            self.busy = True
            try:
                self.index = self.index_of(self.segment, self.reader.offset)
            finally:
                self.rest()
        entry = cl_index_below(&self.index.index, self.reader.offset - CL_FRAME_ALIGN)
        if entry != <size_t>-1:
            start = self.index.index.entries[entry].offset
        self.make_room(self.index.index.spacing)
        for _ in range(PATIENCE):
            if self.segment is None:
                break  # closed by another thread meanwhile
            code = cl_stretch_fill(&self.reader, &self.stretch, start)
            if code != CL_E_BUSY:
                return code
            with nogil:
                cl_sleep_ns(NAP_NS)
            self.guard()
        return code

    cdef int make_room(self, uint32_t spacing) except -1:
        cdef uint32_t room = max(spacing, STRETCH_LEAST)
        cdef uint32_t *offsets
        if self.stretch.room < room:
            offsets = <uint32_t *>realloc(self.stretch.offsets, room * sizeof(uint32_t))
            if offsets == NULL:
                raise MemoryError("no memory to read backward in")
            self.stretch.offsets = offsets
            self.stretch.room = room
            self.stretch.count = 0
        return 0

    cdef int previous_record(self, cl_record *record) except? -100:
        cdef int code = CL_E_ROLL
        while True:
            if self.segment is not None:
                code = cl_reader_previous(&self.reader, &self.stretch, record)
            if code == CL_OK:
                return CL_OK
            if not self.go_back(code):
                return CL_E_END

    cdef int go_back(self, int code) except -1:
        """Do what a look back has found wanting; false where there is no more to read."""
        if code == CL_E_ROLL:
            return self.enter_before()
        if code == CL_E_ABSENT:
            return self.fill_stretch() == CL_OK
        if code == CL_E_DAMAGE:
            self.damaged_before()
            return True
        return False

    cdef object damaged_before(self):
        cdef Segment segment = self.segment
        cdef cl_segment *held = segment.held()
        cdef uint64_t base = held.base
        cdef uint64_t damage = self.stretch.damage
        cdef uint64_t position = base + damage
        cdef uint64_t resume
        with nogil:
            resume = cl_segment_resume(held, damage)
        cl_segment_release(held)
        error = CorruptRecordError(
            f"damage: what stands here is not a whole frame, or its CRC does not match; what is whole ends at {position}. "
            "Run `commitlog verify` on the log, and `commitlog repair` to step over the damage for good",
            path=segment.path, position=position, resume_position=base + resume)
        if self.pass_damage(error) is None:
            raise error
        cl_stretch_pass(&self.reader, &self.stretch)

    cdef tuple batch_back(self, Py_ssize_t max_records, Py_ssize_t max_bytes):
        cdef int code = CL_E_ROLL
        cdef Columns columns
        cdef Segment first = None
        max_bytes = max(4096, min(max_bytes, <Py_ssize_t>self.position))
        max_records = min(max_records, max_bytes // CL_FRAME_HEADER)
        columns = Columns(self.shelf, max_records, max_bytes)
        while columns.native.count < columns.native.most:
            if self.segment is not None:
                code = cl_stretch_batch(&self.reader, &self.stretch, &columns.native)
            if first is None and columns.native.count != 0:
                first = self.segment
            if code == CL_E_FULL and columns.native.count == 0:
                # One record larger than the room there was: room for the largest there can be.
                columns = Columns(self.shelf, max_records, self.core.log.segment_size)
                continue
            if code == CL_E_DAMAGE and columns.native.count != 0:
                break
            try:
                if not self.go_back(code):
                    break
            except (CommitLogError, OSError):
                if columns.native.count == 0:
                    raise
                break  # what was read comes first, and the next call says it again
        return *columns.cut(), first
