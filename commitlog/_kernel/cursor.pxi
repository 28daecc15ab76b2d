# A position in a log and the reads from there: the core of a `Tailer`.

cdef uint32_t BACKWARD_LEAST = 256
cdef int PATIENCE = 20  # polls of a claim whose owner may be dead; one poll does not decide that
cdef int64_t NAP_NS = 100_000


@cython.final
@cython.no_gc_clear  # methods called while the collector breaks a cycle find all attributes
cdef class Cursor:
    """A position between two records of a log. One thread at a time reads from it.

    Parameters
    ----------
    core : Core
        The log's kernel handle.
    policy : CursorPolicy
        Gives the segments and decides about damage: see `readers.pyi`.
    visibility : str
        What is read: see `CommitLog.tailer`.
    """

    def __cinit__(self, Core core not None, policy, str visibility not None):
        memset(&self.backward, 0, sizeof(self.backward))
        self.core = core
        self.policy = policy
        self.shelf = Shelf.__new__(Shelf)
        cl_reader_init(&self.reader, &core.log, &self.watch)
        # A read-only handle has no pool buffers, and cannot see those of another process.
        self.reader.from_buffer = visibility == "appended" and core.log.resolves
        cdef cl_cursors *cells = core.cursors.cells
        if visibility == "flushed":
            self.reader.watermark = &cells.flushed.value
            self.reader.watermark_signal = <uint32_t *>&cells.flush_signal.value
        elif visibility == "replicated":
            self.reader.watermark = &cells.replicated.value
            self.reader.watermark_signal = <uint32_t *>&cells.replicated_signal.value
        self.pending = cl_log_upward(&core.log, 0)

    def __dealloc__(self):
        free(self.backward.offsets)

    # --- the position ------------------------------------------------------------------------

    @property
    def position(self):
        """Where the next record is read."""
        return self.current()

    cdef uint64_t current(self):
        if self.segment is None:
            return self.pending
        return cl_log_upward(&self.core.log, self.segment.segment.base + self.reader.offset)

    def move_to(self, uint64_t position):
        """Move to a position, at which a record starts or the log ends."""
        cdef uint64_t number
        self.guard()
        self.pending = cl_log_upward(&self.core.log, position)
        number = self.pending // self.core.log.segment_size
        if self.segment is not None and self.segment.segment.number == number:
            cl_reader_enter(
                &self.reader, self.segment.segment, self.pending - self.segment.segment.base)
            return
        self.segment = None
        cl_reader_leave(&self.reader)

    def turn(self, bint backward):
        """Set the direction of reading."""
        self.guard()
        self.back = backward
        self.turned = backward or self.selection is not None

    @property
    def backward(self):
        """Whether it reads backward."""
        return bool(self.back)

    def select(self, Selection selection not None):
        """Read only these records from now on. No other cursor may have the same object."""
        self.selection = selection
        self.turned = True

    @property
    def selects(self):
        """Whether it reads only some records."""
        return self.selection is not None

    cpdef leave(self):
        """Release the segment and remember the position; if a thread reads, when it is done."""
        if self.busy:
            self.leaving = True
        elif self.segment is not None:
            self.pending = self.current()
            self.segment = None
            cl_reader_leave(&self.reader)

    def end(self):
        """End all reads, because the tailer's name is released."""
        self.ended = self.busy = True

    # --- the position of a named tailer ------------------------------------------------------

    def keep_in(self, TailerPage page not None):
        """Save the position in a page from now on."""
        self.page = page

    cdef int keep_position(self) except -1:
        """Save the position in the page; at a segment's end, possibly the lower of the two."""
        cdef uint64_t position = self.pending
        if self.segment is not None:
            position = self.segment.segment.base + self.reader.offset
        if cl_tailer_save_plainly(&self.page.mark, position):
            return 0
        return self.page.save_position(position)

    cpdef save_position(self):
        """Save the position in the page, if there is one."""
        if self.page is not None:
            self.keep_position()

    cpdef return_to_saved(self):
        """Move to the saved position, if there is a page.

        If a loop was left early, its last record is thus read again.
        """
        if self.page is not None and self.page.mark.saved != self.current():
            self.move_to(self.page.mark.saved)

    # --- one thread at a time ----------------------------------------------------------------

    cdef int rest(self) except -1:
        """Mark the cursor as no longer busy."""
        self.busy = False
        if self.leaving:
            self.leaving = False
            self.leave()
        return 0

    cdef int guard(self) except -1:
        if self.ended:
            raise ClosedError(
                "the tailer is closed, and its name was released: create it again",
                path=self.core.path)
        if self.core.log.refusal == REFUSED_CLOSED:
            raise self.core.failed_with(CL_E_CLOSED, 0, None)
        if self.busy:
            raise InUseError(
                "another thread is reading with this tailer: create one tailer for each thread",
                path=self.core.path)
        return 0

    # --- the next record ---------------------------------------------------------------------

    cdef int next_record(self, cl_record *record) except? -100:
        """Read the next record: CL_OK, or CL_E_END."""
        cdef int code = CL_E_ROLL
        if self.busy or self.core.log.refusal == REFUSED_CLOSED:
            self.guard()
        if self.turned:
            return self.turned_record(record)
        if self.segment is not None and cl_reader_next_short(&self.reader, record):
            return CL_OK
        while True:
            if self.segment is not None:
                code = cl_reader_next(&self.reader, record)
            if code == CL_OK:
                return CL_OK
            if code == CL_E_ROLL:
                code = self.enter_next()
                if code == CL_OK:
                    code = CL_E_ROLL
                    continue
                self.core.look()
                return code
            if code == CL_E_DAMAGE:
                self.pass_damage()
                code = CL_E_ROLL
                continue
            self.core.look()
            return CL_E_END

    def read_onward(self):
        """Return the next record forward, even if the cursor reads backward or only some records;
        None at the end.

        Does not save a named tailer's position.
        """
        cdef cl_record native
        cdef bint turned = self.turned
        self.guard()
        self.turned = False
        try:
            if self.next_record(&native) != CL_OK:
                return None
            return make_record(self.segment, &native)
        finally:
            self.turned = turned

    cdef int enter_next(self) except? -100:
        """Enter the segment of the position; CL_E_END if it does not exist yet."""
        cdef uint64_t position = self.pending
        cdef Segment segment
        if self.segment is not None:
            position = self.segment.segment.base + self.segment.segment.size
        self.busy = True
        try:
            segment = self.policy.next_segment(position // self.core.log.segment_size)
        finally:
            self.rest()
        if segment is None:
            return CL_E_END
        segment.check()
        if segment.segment.number != position // self.core.log.segment_size:
            raise ValueError(
                f"segment {segment.segment.number} does not contain position {position}")
        self.segment = segment
        cl_reader_enter(&self.reader, segment.segment, position - segment.segment.base)
        return CL_OK

    cdef object pass_damage(self):
        cdef Segment segment = self.segment
        cdef cl_segment *held = segment.held()
        cdef uint64_t offset = self.reader.offset
        cdef uint64_t position = held.base + offset
        cdef uint64_t resume
        with nogil:
            resume = cl_log_resume(&self.core.log, held, offset)
        resume = cl_log_upward(&self.core.log, resume + held.base)
        cl_segment_release(held)
        self.meet_damage(
            segment.path, position, resume, f"the next whole frame is at {resume}"
        )
        self.move_to(resume)

    cdef int meet_damage(
        self, str path, uint64_t position, uint64_t resume, str around
    ) except -1:
        """Raise `CorruptRecordError` unless the policy passes over damage."""
        error = CorruptRecordError(
            f"damage: there is no whole frame here, or its CRC does not match; {around}. Run "
            "`commitlog verify` on the log, and `commitlog repair` to mark the damage as skipped",
            path=path, position=position, resume_position=resume)
        if not self.policy.skips_damage(error):
            raise error
        return 0

    # --- selected records --------------------------------------------------------------------

    cdef int turned_record(self, cl_record *record) except? -100:
        return self.previous_record(record) if self.selection is None else (
            self.selected_record(record))

    cdef int selected_record(self, cl_record *record) except? -100:
        """Read the next selected record in the cursor's direction: CL_OK, or CL_E_END."""
        cdef int code
        while True:
            code = CL_E_ROLL if self.segment is None else self.search(record)
            if code == CL_OK:
                if self.selection.accept(self.segment, record):
                    return CL_OK
            elif code == CL_E_FULL:
                PyErr_CheckSignals()
                self.guard()
            elif self.back:
                if code == CL_E_ROLL and self.is_at_floor() or not self.go_back(code):
                    return CL_E_END
            elif code == CL_E_DAMAGE:
                self.pass_damage()
            elif code != CL_E_ROLL or self.enter_next() != CL_OK:
                self.core.look()
                return CL_E_END

    cdef bint is_at_floor(self) noexcept:
        """Whether all older segments are below the selection's floor."""
        return self.segment is not None and self.segment.segment.base <= self.selection.floor

    cdef int search(self, cl_record *record) except? -100:
        """Look for a selected record in the segment; CL_E_FULL: there may be one further on."""
        cdef int code
        if not self.selection.is_for(self.segment):
            self.take_list()
            if self.segment is None:
                return CL_E_END  # closed by another thread meanwhile
        code = self.look_for(record, LOOKS_LOCKED)
        if code != CL_E_FULL or self.reader.from_buffer:
            return code
        self.core.enter()
        self.busy = True
        try:
            with nogil:
                code = self.look_for(record, LOOKS_FREE)
        finally:
            self.core.leave()
            self.rest()
        return CL_E_END if self.segment is None else code

    cdef int look_for(self, cl_record *record, size_t most) noexcept nogil:
        if self.back:
            return cl_selection_previous(
                &self.selection.native, &self.reader, &self.backward, record, most)
        return cl_selection_next(&self.selection.native, &self.reader, record, most)

    cdef int take_list(self) except -1:
        """Ask for the list of the segment, which may take as long as to build it."""
        cdef Segment segment = self.segment
        self.busy = True
        try:
            self.selection.take_list(segment, self.policy.listed(segment, self.selection))
        finally:
            self.rest()
        return 0

    # --- the record before -------------------------------------------------------------------

    cdef int previous_record(self, cl_record *record) except? -100:
        """Read the record before the position: CL_OK, or CL_E_END."""
        cdef int code = CL_E_ROLL
        while True:
            if self.segment is not None:
                code = cl_backward_scan_previous(&self.reader, &self.backward, record)
            if code == CL_OK:
                return CL_OK
            if not self.go_back(code):
                return CL_E_END

    cdef int go_back(self, int code) except -1:
        """Handle the code that ended a step back; return false if there is no more to read."""
        if code == CL_E_ROLL:
            return self.enter_before()
        if code == CL_E_ABSENT:
            return self.scan_back() == CL_OK
        if code == CL_E_DAMAGE:
            self.pass_damage_before()
            return True
        return False

    cdef int enter_before(self) except -1:
        """Enter the segment that holds the position or ends at it; false at the log's beginning."""
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
            segment = self.policy.segment_before(number, position)
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

    cdef void keep_below_watermark(self):
        """Move below the records that may not be read yet."""
        cdef uint64_t base = self.segment.segment.base
        cdef uint64_t visible
        if self.reader.watermark == NULL:
            return
        visible = cl_load(self.reader.watermark)
        if base + self.reader.offset > visible:
            self.reader.offset = CL_SEGMENT_HEADER
            if visible > base:
                self.reader.offset = max(visible - base, <uint64_t>CL_SEGMENT_HEADER)

    cdef int scan_back(self) except? -100:
        """Scan the frames before the position; CL_E_BUSY if a claim among them is not resolved."""
        cdef uint64_t start = CL_SEGMENT_HEADER
        cdef size_t entry
        cdef int code = CL_E_BUSY
        self.keep_below_watermark()
        if self.reader.offset <= CL_SEGMENT_HEADER:
            return CL_OK
        if (self.index is None or self.index.segment_id != self.segment.segment.id
                or self.index.index.offset < self.reader.offset):
            self.busy = True
            try:
                self.index = self.policy.index_of(self.segment, self.reader.offset)
            finally:
                self.rest()
        entry = cl_index_below(&self.index.index, self.reader.offset - CL_FRAME_ALIGN)
        if entry != <size_t>-1:
            start = self.index.index.entries[entry].offset
        self.make_room(self.index.index.spacing)
        for _ in range(PATIENCE):
            if self.segment is None:
                break  # closed by another thread meanwhile
            code = cl_backward_scan_fill(&self.reader, &self.backward, start)
            if code != CL_E_BUSY:
                return code
            with nogil:
                cl_sleep_ns(NAP_NS)
            self.guard()
        return code

    cdef int make_room(self, uint32_t spacing) except -1:
        cdef uint32_t room = max(spacing, BACKWARD_LEAST)
        cdef uint32_t *offsets
        if self.backward.room < room:
            offsets = <uint32_t *>realloc(self.backward.offsets, room * sizeof(uint32_t))
            if offsets == NULL:
                raise MemoryError("no memory to read backward")
            self.backward.offsets = offsets
            self.backward.room = room
            self.backward.count = 0
        return 0

    cdef object pass_damage_before(self):
        cdef Segment segment = self.segment
        cdef cl_segment *held = segment.held()
        cdef uint64_t base = held.base
        cdef uint64_t damage = self.backward.damage
        cdef uint64_t position = base + damage
        cdef uint64_t resume
        with nogil:
            resume = cl_log_resume(&self.core.log, held, damage)
        cl_segment_release(held)
        self.meet_damage(
            segment.path, position, base + resume,
            f"the whole frames before it end at {position}"
        )
        cl_backward_scan_pass_damage(&self.reader, &self.backward)

    # --- limit and news ----------------------------------------------------------------------

    def end_at(self, uint64_t position):
        """Read nothing from this position on, forward."""
        self.reader.limit = position
        cl_reader_plan(&self.reader)

    @property
    def has_news(self):
        """Whether a read now may find a record; for the watcher's thread."""
        if self.core.log.refusal == REFUSED_CLOSED:
            return True
        if self.busy:
            return False
        try:
            self.core.look()
        except CommitLogError:
            return True  # the read raises it
        if self.reader.watermark != NULL:
            self.core.ask_for_flush()
        if self.segment is None or self.reader.offset >= self.segment.segment.size:
            return <uint64_t>self.core.tail_position > self.current()
        return bool(cl_reader_news(&self.reader))

    @property
    def is_woken(self):
        """Whether appends end `wait_append` for this cursor; if not, poll it."""
        if self.reader.watermark != NULL or (self.reader.from_buffer and self.core.log.pooled):
            return False
        return append_word(self.core) != NULL
