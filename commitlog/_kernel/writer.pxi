# Appends single records; rolls and waits after a refused or published append.


@cython.no_gc_clear
cdef class Writer(Committer):
    """The appends of one handle. Any thread may call; the interpreter's lock admits one at a time.
    """

    def __cinit__(self, *args, **kwargs):
        self.writer.log = &self.log
        self.claims = {}

    def begin_appends(
        self, *, bint precise, bint by_time, uint32_t wake_bytes, bint sync, double sync_timeout
    ):
        """Accept appends, after `attach_slot`: once, and again in the child of a fork.

        Parameters
        ----------
        precise : bool
            Take timestamps from the precise clock, which costs about 28 ns an append.
        by_time : bool
            Whether the log has cycles, at whose end it rolls early.
        wake_bytes : int
            A pooled log's commit loop is woken each time this much was appended.
        sync : bool
            Whether appends without `sync=` wait for durability.
        sync_timeout : float
            Seconds.
        """
        if self.log.owner == 0 or self.log.tail == NULL:
            raise ValueError("a writer needs a slot and a tail")
        cl_writer_clear(&self.writer)
        cl_writer_init(&self.writer, &self.log, self.log.pooled, precise, wake_bytes)
        if by_time:
            self.writer.cycle_end_ns = INT64_MIN  # the first append computes the cycle's end
        self.claims.clear()  # in the child of a fork: the parent's
        self.sync_default = sync
        self.sync_timeout = sync_timeout

    def __dealloc__(self):
        cl_writer_clear(&self.writer)

    def drop_segment(self):
        """Release the segment of the last append."""
        self.pause_native()
        cl_writer_clear(&self.writer)
        self.resume_native()

    def writer_counters(self):
        """Return the counters of this handle's appends, by name."""
        return self.writer.counters

    @property
    def largest_value(self):
        """The longest value, in bytes, that an append without key and type can take."""
        cdef uint32_t largest = self.largest_frame()
        return largest - CL_FRAME_HEADER if largest else 0

    cdef uint32_t largest_frame(self):
        return self.writer.largest if self.native == NULL else self.native.largest

    # --- the C API ---------------------------------------------------------------------------

    cdef int lend_writer(self, cl_native_writer *native) except -1:
        """Let a native thread append, and nothing else, until `return_writer`."""
        if self.native != NULL:
            raise self.in_use()
        self.policy.writing()
        self.enter()
        cl_native_init(native, &self.writer)
        cl_writer_set_largest(&self.writer, 0)
        self.native = native
        return 0

    cdef int return_writer(self, cl_native_writer *native) except -1:
        if self.native == native:
            self.native = NULL
            cl_writer_set_largest(&self.writer, native.largest)
            self.leave()
        return 0

    cdef int append_lent(
        self, cl_native_writer *native, const cl_record_input *record, object headers,
        uint64_t *position
    ) except -100:
        """Try to append a record with headers while the writer is lent; return the code. The
        interpreter's lock keeps Python's appends away meanwhile.
        """
        cdef bytes encoded = encode_headers(headers)
        cdef cl_headers given
        cdef uint64_t length
        cdef int code
        given.bytes = <const uint8_t *>PyBytes_AS_STRING(encoded)
        given.length = <uint32_t>PyBytes_GET_SIZE(encoded)
        length = cl_headers_size(&given) + cl_input_length(record)
        if length > native.largest:
            raise self.too_large(length)
        cl_writer_set_largest(&self.writer, native.largest)
        code = cl_append_marked(&self.writer, record, &given, NULL, position)
        cl_writer_set_largest(&self.writer, 0)
        return code

    cdef object in_use(self):
        return InUseError(
            "native code appends through this log: close its appender first, or, if the log is "
            "mapped, open it a second time", path=self.path
        )

    # --- rolling ----------------------------------------------------------------------------------

    cdef int advance(self) except -1:
        """If the tail is at its segment's end, roll to the next segment. If that segment is not
        ready, the policy rolls.
        """
        cdef uint64_t number = <uint64_t>-1
        cdef int64_t began_ns
        if self.writer.tail != NULL:
            number = cl_writer_rolls_from(&self.writer)
        if number != <uint64_t>-1:
            began_ns = cl_clock_monotonic_ns()
            if cl_writer_roll_ahead(&self.writer, number) != CL_OK:
                self.policy.roll_from(number)
            cl_histogram_add(&self.log.latencies.roll, cl_clock_monotonic_ns() - began_ns)
        return 0

    cdef int check_files(self) except -1:
        """Raise `ClosedError` if the log's files are released: a signal handler or another thread
        may close the log in the middle of a roll.
        """
        if self.leaving or self.writer.tail == NULL:
            raise self.failed_with(CL_E_CLOSED, 0, None)
        return 0

    def open_segment(self, uint64_t number, int64_t now_ns):
        """Record in a segment's header that the log rolls into it now; return the recorded time,
        which another handle may have written first.
        """
        cdef int64_t opened_ns = 0
        self.check_files()
        cdef int code = cl_writer_open_segment(&self.writer, number, now_ns, &opened_ns)
        if code != CL_OK:
            raise self.failed_with(code, errno, number * self.log.segment_size)
        return opened_ns

    def move_tail(self, uint64_t number, int64_t opened_ns, int64_t cycle=0):
        """Move the tail from the end of segment `number` to the start of the next, which is ready.
        """
        self.check_files()
        cdef int code = cl_writer_roll(&self.writer, number, opened_ns, cycle)
        if code != CL_OK:
            raise self.failed_with(code, errno, (number + 1) * self.log.segment_size)

    def close_segment(self, number=None):
        """Close the current segment early; with a number, only if the tail is in that segment."""
        cdef uint64_t which = CL_SEGMENT_CURRENT if number is None else <uint64_t>number
        self.pause_native()
        cdef int code = cl_writer_close_segment(&self.writer, which)
        cdef int cause = errno
        self.resume_native()
        if code != CL_OK:
            raise self.failed_with(code, cause, None)

    def roll_at_once(self):
        """Roll now instead of at the next append. In a log with cycles the append rolls, because
        its time decides the cycle.
        """
        if self.writer.cycle_end_ns == INT64_MAX:
            self.advance()

    @property
    def cycle_end_ns(self):
        """The wall-clock time of the next call of the policy's `meet_cycle`; None if the log rolls
        by size alone.
        """
        return None if self.writer.cycle_end_ns == INT64_MAX else self.writer.cycle_end_ns

    @cycle_end_ns.setter
    def cycle_end_ns(self, int64_t time_ns):
        self.writer.cycle_end_ns = time_ns

    def meet_cycle(self):
        """Have the policy close the current segment if its cycle is over, without an append."""
        self.policy.meet_cycle()

    cdef int finish_append(self, uint64_t end, bint durable) except -1:
        """Do what a published append still needs: a due roll, and the wait for durability."""
        cdef int64_t began_ns
        if not durable and not self.writer.roll_due:
            return 0
        try:
            if self.writer.roll_due:
                self.writer.roll_due = False
                try:
                    self.roll_at_once()
                except CommitLogError:
                    pass  # the next append reports it, because this one is done
            if durable:
                began_ns = cl_clock_monotonic_ns()
                try:
                    self.make_durable(end, self.sync_timeout)
                finally:
                    cl_histogram_add(&self.log.latencies.sync, cl_clock_monotonic_ns() - began_ns)
        except KeyboardInterrupt as interrupt:
            if end:
                interrupt.add_note(
                    f"commitlog: the record that ends at {end} stays in the log, and may be "
                    "durable."
                )
            raise
        return 0

    cpdef check_claims(self, uint64_t below):
        """Raise `ClaimError` if the calling thread has an open claim below a position, because a
        wait for it would never end.
        """
        me = _get_ident()
        for position, thread in self.claims.items():
            if thread == me and position < below:
                raise ClaimError(
                    "this thread still has an open claim: leave its `with` block first",
                    path=self.path, position=position
                )

    cdef int sync_of(self, object sync) except -1:
        """Read the argument `sync` of an append, which is not None."""
        if sync is True:
            return 1
        if sync is False:
            return 0
        raise InvalidOptionError(
            f"sync must be True, False or None, not {sync!r}", path=self.path
        )

    cdef int check_durable(self, bint durable) except -1:
        """Raise `ClaimError` if an append is to be durable, and an open claim would prevent it."""
        if durable and self.claims:
            self.check_claims(<uint64_t>-1)
        return 0

    def limit_appends(self, limit, uint64_t required_seen):
        """Refuse appends beyond a position (None: none), or once the cell `required` changes."""
        cdef uint64_t position
        cdef uint64_t place = <uint64_t>-1
        if limit is not None:
            position = limit
            place = cl_tail_pack(
                position // self.log.segment_size, <uint32_t>(position % self.log.segment_size)
            )
        self.pause_native()
        cl_writer_limit(&self.writer, place, required_seen)
        self.resume_native()

    # --- appending --------------------------------------------------------------------------------

    def append_unless_held(self, value, key, type, timestamp_ns, expect):
        """Append one record without `sync`; None if it must wait for a required tailer, or with
        `expect` for an open claim.
        """
        cdef uint64_t position = self.append_any(
            value, key, type, timestamp_ns, expect, False, False
        )
        return None if position == NOT_APPENDED else position

    cdef uint64_t append_any(
        self, object value, object key, object type, object timestamp_ns, object expect,
        bint durable, bint waits
    ) except 0:
        """Append one record of any accepted types and finish the append; return its position, or
        NOT_APPENDED.
        """
        cdef cl_record_input record
        cdef Py_buffer value_view, key_view
        cdef bint value_held = False
        cdef bint key_held = False
        cdef uint64_t position
        cdef Py_ssize_t value_length
        cdef cl_condition condition
        if expect is not None:
            begin_condition(&condition, expect)
        try:
            if PyBytes_CheckExact(value):
                record.value = PyBytes_AS_STRING(value)
                value_length = PyBytes_GET_SIZE(value)
            else:
                bytes_of(value, "the value", &value_view)
                value_held = True
                record.value = value_view.buf
                value_length = value_view.len
            record.type = 0 if type == 0 else type_of(type)
            record.key = NULL
            record.key_length = CL_KEYLEN_NONE
            if key is not None:
                bytes_of(key, "the key", &key_view)
                key_held = True
                if key_view.len > CL_FRAME_LIMIT:
                    raise self.too_large(key_view.len)
                record.key = key_view.buf
                record.key_length = <uint32_t>key_view.len
            if value_length > CL_FRAME_LIMIT:
                raise self.too_large(value_length)
            record.value_length = <uint32_t>value_length
            record.timestamp_ns = timestamp_of(timestamp_ns)
            position = self.put(
                &record, NULL if expect is None else &condition, durable, waits
            )
        finally:
            if value_held:
                PyBuffer_Release(&value_view)
            if key_held:
                PyBuffer_Release(&key_view)
        return position

    cdef uint64_t put(
        self, const cl_record_input *record, cl_condition *condition, bint durable, bint waits
    ) except 0:
        """Append one record, on a condition if there is one, and finish the append; return its
        position, or NOT_APPENDED.
        """
        cdef uint64_t position = 0
        cdef int code
        self.check_durable(durable)
        while True:
            if condition == NULL:
                code = cl_writer_append(&self.writer, record, &position)
            else:
                code = cl_append_expected(&self.writer, record, condition, &position)
            if code == CL_OK:
                break
            if is_refused(self, code, condition, record, 1, waits):
                return NOT_APPENDED
        self.finish_append(end_of(position, record), durable)
        return position

    cdef bint takes(self):
        """Whether this handle may append, now or after a wait."""
        cdef int refusal = self.log.refusal
        if refusal == REFUSED_CLOSED or refusal == REFUSED_READ_ONLY:
            return False
        return self.writer.tail != NULL

    cdef int check_size(self, const cl_record_input *record, uint64_t before) except -1:
        """Refuse a record that does not fit a frame with `before` bytes of headers."""
        cdef uint64_t length = before + cl_input_length(record)
        if length > self.writer.largest and self.takes():
            raise self.too_large(length)
        return 0

    cdef int handle_refusal(
        self, int code, const cl_record_input *record, uint64_t records, bint waits
    ) except -1:
        """Roll, wait or raise after a refused append of so many records.

        Return false if the caller is to retry. Return true if the records are dropped, or if they
        must wait for a required tailer and `waits` is false.
        """
        if code == CL_E_ROLL:
            return self.advance()
        if code == CL_E_CYCLE:
            self.policy.meet_cycle()
            return self.advance()
        if code == CL_E_GROW:
            self.policy.grow(cl_tail_number(self.writer.wanted), cl_tail_offset(self.writer.wanted))
            return 0
        if code == CL_E_LAG:
            return self.policy.hold_back(records) if waits else True
        if code == CL_E_TOO_LARGE:
            raise self.too_large(cl_input_length(record) if record != NULL else 0)
        if code == CL_E_FORKED:
            self.policy.adopt()
            return 0
        raise self.failed_with(code, errno, None)

    cdef object too_large(self, size):
        limit = self.largest_frame()
        if self.native != NULL and size <= limit:
            return self.in_use()
        return RecordTooLargeError(
            f"a record of {size} bytes with its header does not fit the log's largest frame of "
            f"{limit} bytes: split it, or create the log with larger segments",
            path=self.path, size=size, limit=limit)
