# Reading: what `Tailer` is made of.

IDLE = {"spin": CL_IDLE_SPIN, "yield": CL_IDLE_YIELD, "backoff": CL_IDLE_BACKOFF, "block": CL_IDLE_BLOCK}
cdef int64_t SLICE_NS = 50_000_000  # how long any wait may keep Ctrl-C waiting
cdef int64_t NO_END_NS = 3_600_000_000_000
cdef double PLAIN_LIMIT_S = 86_400.0  # longer timeouts than a day are checked at leisure


cdef class Reader:
    """A place in a log, and the way on from there. Subclasses say how a segment is found: `open_segment`."""

    def __cinit__(self, *args, **kwargs):
        memset(&self.reader, 0, sizeof(self.reader))
        self.shelf = Shelf.__new__(Shelf)

    def setup(self, Core core not None, uint64_t position, *, bint from_buffer, bint flushed_only):
        """Stand at `position`, where a record starts or the log ends."""
        self.core = core
        self.segment = None
        cl_reader_init(&self.reader, &core.log)
        # What lives in another process's buffers is not to be seen, and the buffers of a log that is only read are never here.
        self.reader.from_buffer = from_buffer and core.log.resolves
        self.reader.flushed_only = flushed_only
        self.pending = cl_log_upward(&core.log, position)

    def open_segment(self, number):
        """The `Segment` to go on in, or None when there is none yet."""
        raise NotImplementedError

    def pass_damage(self, error):
        """Told of damage; the position to go on at, or None to raise `error`."""
        raise NotImplementedError

    @property
    def position(self):
        """Where the next record would be read."""
        if self.core is None:
            return None
        if self.segment is None:
            return self.pending
        return cl_log_upward(&self.core.log, self.segment.segment.base + self.reader.offset)

    def move_to(self, uint64_t position):
        """Stand at another position."""
        self.guard()
        self.pending = cl_log_upward(&self.core.log, position)
        if self.segment is not None and self.segment.segment.number == self.pending // self.core.log.segment_size:
            cl_reader_enter(&self.reader, self.segment.segment, self.pending - self.segment.segment.base)
            return
        self.segment = None
        self.reader.segment = NULL

    def name_place(self, TailerPage page):
        """Keep the place in a page from now on; None: keep it no more."""
        self.page = page

    @cython.final
    cdef int keep_place(self) except -1:
        """Of a named tailer. Of the two positions that a segment's end has, this may be the lower."""
        cdef uint64_t position = self.pending if self.segment is None else self.segment.segment.base + self.reader.offset
        return 0 if cl_tailer_save_plainly(&self.page.mark, position) else self.page.save_place(position)

    def save_place(self):
        """A named tailer goes on here when it is opened again. Without a name, nothing happens."""
        if self.page is not None:
            self.keep_place()

    def return_to_place(self):
        """Back to where a named tailer would go on: a loop that was left gives its last record again. Without a name, nothing happens."""
        if self.page is not None and self.page.mark.saved != <uint64_t>self.position:
            self.move_to(self.page.mark.saved)

    def drop_place(self):
        """Let go of the segment; the place is remembered. Where another thread reads in it, that thread does so when it is done."""
        if self.busy:
            self.dropping = True
        elif self.segment is not None:
            self.pending = self.position
            self.segment = None
            self.reader.segment = NULL

    def end(self):
        """Read no more: the name is given back."""
        self.ended = self.busy = True

    cdef int rest(self) except -1:
        """The end of being busy."""
        self.busy = False
        if self.dropping:
            self.dropping = False
            self.drop_place()
        return 0

    cdef int guard(self) except -1:
        if self.ended:
            raise ClosedError("the tailer is closed, and others may read under its name: open it again", path=self.core.path)
        if self.core is None or self.core.log.gate == GATE_CLOSED:
            raise (self.core.failed_with(CL_E_CLOSED, 0, None) if self.core is not None else ValueError("not set up"))
        if self.busy:
            raise TailerInUseError("another thread is reading with this tailer: give each thread a tailer of its own", path=self.core.path)
        return 0

    cdef int enter(self) except? -100:
        """Into the segment where the reader now stands; CL_E_END when it is not there yet."""
        cdef uint64_t position = self.pending
        cdef Segment segment
        if self.segment is not None:
            position = self.segment.segment.base + self.segment.segment.size
        self.busy = True
        try:
            segment = self.open_segment(position // self.core.log.segment_size)
        finally:
            self.rest()
        if segment is None:
            return CL_E_END
        segment.check()
        if segment.segment.number != position // self.core.log.segment_size:
            raise ValueError(f"segment {segment.segment.number} is not the one that position {position} lies in")
        self.segment = segment
        cl_reader_enter(&self.reader, segment.segment, position - segment.segment.base)
        return CL_OK

    cdef int next_record(self, cl_record *record) except? -100:
        """CL_OK with a record, or CL_E_END when there is none at present."""
        cdef int code = CL_E_ROLL
        if self.busy or self.core is None or self.core.log.gate == GATE_CLOSED:
            self.guard()
        if self.turned:
            return self.previous_record(record)
        if self.segment is not None and cl_short_frame_next(&self.reader, record):
            return CL_OK
        while True:
            if self.segment is not None:
                code = cl_reader_next(&self.reader, record)
            if code == CL_OK:
                return CL_OK
            if code == CL_E_ROLL:
                code = self.enter()
                if code == CL_OK:
                    code = CL_E_ROLL
                    continue
                self.core.look()
                return code
            if code == CL_E_DAMAGE:
                self.damaged()
                code = CL_E_ROLL
                continue
            self.core.look()
            return CL_E_END

    cdef int previous_record(self, cl_record *record) except? -100:
        """The same, the other way: see `BackwardReader`."""
        raise NotImplementedError

    cdef tuple batch_back(self, Py_ssize_t max_records, Py_ssize_t max_bytes):
        """The same as `batch`, the other way: see `BackwardReader`."""
        raise NotImplementedError

    cdef object damaged(self):
        cdef Segment segment = self.segment
        cdef cl_segment *held = segment.held()
        cdef uint64_t offset = self.reader.offset
        cdef uint64_t position = held.base + offset
        cdef uint64_t resume
        with nogil:
            resume = cl_segment_resume(held, offset)
        resume = cl_log_upward(&self.core.log, resume + held.base)
        cl_segment_release(held)
        error = CorruptRecordError(
            f"damage: what stands here is not a whole frame, or its CRC does not match; the next whole frame is at {resume}. "
            "Run `commitlog verify` on the log, and `commitlog repair` to step over the damage for good",
            path=segment.path, position=position, resume_position=resume)
        onward = self.pass_damage(error)
        if onward is None:
            raise error
        self.move_to(onward)

    def take(self, timeout=0, idle="backoff"):
        """As `read`, but a named place is not kept."""
        cdef cl_record native
        if self.busy or self.core is None or self.core.log.gate == GATE_CLOSED:
            self.guard()
        if self.await_record(&native, self.patience_of(timeout, idle), False) != CL_OK:
            return None
        return make_record(self.segment, &native)

    def read(self, timeout=0, idle="backoff"):
        """The next record in the tailer's direction, past which it moves.

        Parameters
        ----------
        timeout : float, str or None
            Seconds, or text like ``"500ms"``, to wait for one; None waits until there is one or the log is closed. A backward tailer does
            not wait: nothing comes before the oldest record.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait: see `follow`.

        Returns
        -------
        Record or None
            None when nothing came in time.
        """
        cdef cl_record native
        if self.busy or self.core is None or self.core.log.gate == GATE_CLOSED:
            self.guard()
        if self.await_record(&native, self.patience_of(timeout, idle)) != CL_OK:
            return None
        record = make_record(self.segment, &native)
        if self.page is not None:
            self.keep_place()
        return record

    def read_onward(self):
        """The record behind the reader's place, whatever its direction; None where there is none. The place of a name is not kept by it."""
        cdef cl_record native
        cdef bint turned = self.turned
        self.guard()
        self.turned = False
        try:
            return make_record(self.segment, &native) if self.next_record(&native) == CL_OK else None
        finally:
            self.turned = turned

    def check_patience(self, timeout, idle):
        """A duration that is no number, and an idle strategy by its name: the timeout in seconds, or an error that says what is wrong."""
        raise NotImplementedError

    cdef Patience patience_of(self, object timeout, object idle):
        cdef Patience patience
        cdef bint plain = timeout is None or ((type(timeout) is int or type(timeout) is float) and 0 <= timeout <= PLAIN_LIMIT_S)
        if not plain or type(idle) is not str or idle not in IDLE:
            timeout = self.check_patience(timeout, idle)
        patience.endless = timeout is None
        patience.budget_ns = 0 if timeout is None else nanoseconds(timeout)
        patience.idle = IDLE[idle]
        return patience

    cdef int await_record(self, cl_record *record, Patience patience, bint keeps=True) except? -100:
        """CL_OK with a record, or CL_E_END when none came in time, or the log was closed meanwhile. A named place that has passed what is
        no record is kept, unless `keeps` says otherwise: a writer may wait for it."""
        cdef int64_t began_ns = 0
        cdef int64_t left_ns = NO_END_NS
        cdef bint at_once = not patience.endless and patience.budget_ns == 0
        while True:
            if self.core.log.gate == GATE_CLOSED:
                return CL_E_END
            # With the interpreter's lock held: to give it up and take it again costs more than most waits take.
            if not at_once and self.segment is not None and not self.busy and not self.turned:
                if cl_short_frame_next(&self.reader, record):
                    return CL_OK
                cl_reader_spin(&self.reader)
            try:
                if self.next_record(record) == CL_OK:
                    return CL_OK
            except ClosedError:
                return CL_E_END  # closed while the next segment was looked for
            if keeps and self.page is not None:
                self.keep_place()
            if self.turned:
                return CL_E_END  # nothing comes before the oldest record
            if not patience.endless:
                if began_ns == 0:
                    began_ns = cl_clock_monotonic_ns()
                left_ns = 0 if at_once else patience.budget_ns - (cl_clock_monotonic_ns() - began_ns)
                if left_ns <= 0:
                    return CL_E_END
            if self.core.log.gate != GATE_CLOSED:
                self.wait_for(patience.idle, left_ns)

    def wait(self, cl_idle idle, double timeout):
        """Wait until a look is worth while, at most `timeout` seconds and one slice of 50 ms. True when there may be news."""
        return self.wait_for(idle, nanoseconds(timeout))

    cdef bint wait_for(self, cl_idle idle, int64_t budget_ns) except -1:
        cdef bint news
        budget_ns = min(budget_ns, SLICE_NS)
        self.guard()
        self.core.look()
        if self.reader.flushed_only:
            self.core.ask_for_flush()
        if idle == CL_IDLE_BLOCK and not (self.core.cursors.shared and self.core.cursors.writable):
            idle = CL_IDLE_BACKOFF  # nobody could be told of who sleeps
        if self.segment is None or self.reader.offset >= self.segment.segment.size:
            # The next segment's file is what is waited for: nobody announces it, so look at short intervals.
            budget_ns = min(budget_ns, <int64_t>1_000_000)
            self.busy = True
            try:
                with nogil:
                    _nap(budget_ns)
            finally:
                self.rest()
            PyErr_CheckSignals()
            return True
        self.busy = True
        try:
            with nogil:
                news = cl_reader_wait(&self.reader, idle, budget_ns)
        finally:
            self.rest()
        PyErr_CheckSignals()
        return news

    @property
    def has_news(self):
        """Whether a look is worth while now. For whoever waits on behalf of others, and does so with the interpreter's lock held."""
        if self.core is None or self.core.log.gate == GATE_CLOSED:
            return True
        if self.busy:
            return False
        self.core.look()
        if self.reader.flushed_only:
            self.core.ask_for_flush()
        if self.segment is None or self.reader.offset >= self.segment.segment.size:
            return <uint64_t>self.core.tail_position > <uint64_t>self.position
        return bool(cl_reader_news(&self.reader))

    @property
    def is_woken(self):
        """Whether appends end `Core.wait_append` for this reader. Else it has to look now and then."""
        return self.core.append_signal() != NULL and not self.reader.flushed_only and not (self.reader.from_buffer and self.core.log.pooled)

    def batch(self, Py_ssize_t max_records, Py_ssize_t max_bytes=16777216):
        """The next records as columns, up to the present end:
        (positions, timestamps_ns, types, keyed, data, offsets, keys, key_offsets, the segment of the first)."""
        cdef Columns columns
        cdef Segment first = None
        cdef Segment segment
        cdef int code = CL_E_ROLL
        cdef bint to_buffer = self.reader.from_buffer
        self.guard()
        if self.turned:
            return self.batch_back(max_records, max_bytes)
        if self.segment is None and self.enter() != CL_OK:
            max_records = 0
            max_bytes = 0
        max_bytes = self.room(max_bytes)
        max_records = min(max_records, max_bytes // CL_FRAME_HEADER)  # no more than can be there
        columns = Columns(self.shelf, max_records, max_bytes)
        while max_records and columns.native.count < columns.native.most:
            segment = self.segment
            if to_buffer:
                code = cl_reader_batch(&self.reader, &columns.native)
            else:
                code = self.batch_alone(&columns.native)
            if first is None and columns.native.count != 0:
                first = segment
            if self.segment is None:
                break  # closed by another thread meanwhile
            if code == CL_E_ROLL:
                try:
                    code = self.enter()
                except (CommitLogError, OSError):
                    if columns.native.count == 0:
                        raise
                    break  # what was read comes first, and the next call says it again
                if code != CL_OK:
                    break
            elif code == CL_E_FULL and columns.native.count == 0:
                # One record larger than the room there was: room for the largest there can be.
                columns = Columns(self.shelf, max_records, self.core.log.segment_size)
            elif code == CL_E_DAMAGE and columns.native.count == 0:
                self.damaged()
                if self.segment is None and self.enter() != CL_OK:
                    break
            else:
                break
        if columns.native.count == 0:
            self.core.look()
        return *columns.cut(), first

    cdef int batch_alone(self, cl_batch *batch) except? -100:
        """Without the interpreter's lock."""
        cdef int code
        self.core.enter()
        self.busy = True
        try:
            with nogil:
                code = cl_reader_batch(&self.reader, batch)
        finally:
            self.core.leave()
            self.rest()
        return code

    cdef Py_ssize_t room(self, Py_ssize_t max_bytes):
        """Bytes of data to make room for: what there is to read, as far as is known, and no more than `max_bytes`."""
        cdef uint64_t end
        if self.segment is None:
            return 0
        end = self.core.tail_position
        return max(4096, min(max_bytes, <Py_ssize_t>end - <Py_ssize_t>self.position))


cdef extern from "futex.h":
    void cl_sleep_ns(int64_t duration_ns) nogil


cdef void _nap(int64_t budget_ns) noexcept nogil:
    cl_sleep_ns(budget_ns)
