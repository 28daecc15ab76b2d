# One process's handle on a log: slot, tail and watermarks, segments, sleep. The Python layer above
# decides its policy.

cdef int64_t LOOK_INTERVAL_NS = 1_000_000
cdef double FIND_TIMEOUT_S = 1.0  # for another thread that finds the cursors


@cython.no_gc_clear  # methods called while the collector breaks a cycle find all attributes
cdef class Core:
    """The kernel's state of one open log.

    Parameters
    ----------
    policy : OpenLog
        Decides what the kernel cannot: see `commitlog/log/open_log.py`.
    path : str
        The log's directory, for messages.
    dir_fd : int
        The log's directory. The descriptor stays the caller's.
    log_uuid : bytes
        Sixteen bytes.
    segment_size : int
        Bytes.
    cursors : Cursors
        The mapped file, or a private stand-in for a reader that has none.
    writable, pooled : bool
        Whether segments are mapped for writing; whether claims live in pool buffers of this
        process. A reader looks up in the cursors where claims live.
    claim_timeout_ns : int
        How long a live owner may leave a claim unpublished.
    copy_limit : int
        Commits up to this many bytes are copied through the mapping, larger ones written with
        `pwrite`.
    """

    def __cinit__(self, policy, str path, int dir_fd, bytes log_uuid, uint64_t segment_size,
                  Cursors cursors not None, *, bint writable,
                  bint pooled, int64_t claim_timeout_ns, uint32_t copy_limit):
        cdef int code
        cdef bint sized = (
            CL_SEGMENT_SMALLEST <= segment_size <= CL_SEGMENT_LARGEST
            and segment_size % CL_SEGMENT_HEADER == 0
        )
        if not sized:
            raise ValueError(
                "a segment size must be a multiple of the page size, 64 KiB to 1 GiB"
            )
        code = cl_log_init(
            &self.log, cursors.cells, dir_fd, uuid_of(log_uuid), segment_size, writable
        )
        if code != CL_OK:
            raise failure(code, errno, path=path)
        self.ready = True
        self.policy = policy
        self.path = path
        self.cursors = cursors
        self.memories = {}
        self.log.pooled = pooled
        self.log.resolves = writable
        self.log.follows = not writable
        self.log.claim_timeout_ns = claim_timeout_ns
        self.log.copy_limit = copy_limit
        self.log.refusal = 0 if writable else REFUSED_READ_ONLY
        if pooled and writable:
            self.log.tail = &self.log.private_tail
        elif writable:
            self.log.tail = &cursors.cells.tail.value

    def __dealloc__(self):
        if self.ready:
            cl_log_clear(&self.log)

    cdef int enter(self) except -1:
        """Register a call that works on the log's files without the interpreter's lock: `close`
        leaves them open until its `leave`.
        """
        if self.leaving:
            raise failure(CL_E_CLOSED, 0, path=self.path)
        self.users += 1
        return 0

    cdef int leave(self) except -1:
        self.users -= 1
        if self.leaving and self.users == 0:
            self.policy.release_files()
        return 0

    cdef void pause_native(self) noexcept:
        """Keep the appender of the C API, if there is one, out of the writer until
        `resume_native`. No Python code runs in between.
        """
        if self.native != NULL:
            cl_native_pause(self.native)

    cdef void resume_native(self) noexcept:
        if self.native != NULL:
            cl_native_resume(self.native)

    def leave_kernel(self):
        """Refuse new calls that work on the log's files. The last running one calls the policy's
        `release_files`.
        """
        if not self.leaving:
            self.users += 1
            self.leaving = True
            self.leave()

    cdef int look(self) except -1:
        """If there are no live cursors, or `asks`, ask the policy, at most once an interval. Raise
        if the log was cut.
        """
        cdef int64_t now_ns
        if not self.cursors.shared or self.asks:
            now_ns = cl_clock_monotonic_ns()
            if now_ns - self.looked_ns >= LOOK_INTERVAL_NS:
                self.looked_ns = now_ns
                self.policy.find_cursors()
        return self.raise_cut()

    @property
    def is_cut(self):
        """Whether the log was cut at a fork since this handle opened it."""
        return cl_load(&self.cursors.cells.cut.value) != 0

    def check_cut(self):
        """Raise `FencedError` if the log was cut at a fork since this handle opened it."""
        if not self.cursors.shared:
            self.policy.adopt_cursors(FIND_TIMEOUT_S)
        self.raise_cut()

    cdef int raise_cut(self) except -1:
        cdef uint64_t cut = cl_load(&self.cursors.cells.cut.value)
        if cut != 0:
            raise log_was_cut(self.path, cut - 1)
        return 0

    cdef object failed_with(self, int code, int cause, position):
        if code == CL_E_FAILED:
            cause = <int>self.cursors.cells.failed.value
        elif code == CL_E_DAMAGE:
            # where the walk over the appended frames stopped
            position = self.cursors.cells.committed.value
        return failure(code, cause, path=self.path, position=position)

    # --- slots and state --------------------------------------------------------------------------

    def attach_slot(self, int lock_fd, int fd):
        """Take a writer slot through open descriptions of `lock` and of `cursors`, which stay open
        until `detach_slot`.
        """
        cdef uint32_t slot = 0
        cdef uint32_t generation = 0
        cdef cl_slot_fds fds
        fds.lock, fds.cursors = lock_fd, fd
        cdef int code = cl_slot_attach(self.cursors.cells, fds, &slot, &generation)
        if code != CL_OK:
            raise failure(code, errno, path=self.path)
        self.log.slot_fds = fds
        self.log.slot = slot
        self.log.owner = cl_owner(slot, generation)

    def watch_slots(self, int lock_fd, int fd):
        """Probe through these descriptors which owners live, without a slot: for readers. `lock_fd`
        is -1 if `lock` cannot be opened.
        """
        self.log.slot_fds.lock, self.log.slot_fds.cursors = lock_fd, fd

    def detach_slot(self):
        """Give the slot back."""
        if self.log.slot_fds.cursors >= 0 and self.log.owner != 0:
            cl_slot_detach(self.cursors.cells, self.log.slot_fds, self.log.slot)
        self.forget_slot()

    def forget_slot(self):
        """Leave the slot as it is: what holds its locks is closed or the parent's."""
        self.log.owner = 0
        self.log.slot_fds = CL_NO_SLOT_FDS

    def try_creation(self):
        """Take the lock for creating a segment; False while another handle has it."""
        return bool(cl_creation_try(self.log.slot_fds))

    def end_creation(self):
        """Release the lock that `try_creation` took."""
        cl_creation_end(self.log.slot_fds)

    def after_fork(self):
        """In the child: locks start anew, the slot stays the parent's, and appends are refused
        until the child has taken a slot of its own.
        """
        if self.log.refusal == 0 or self.log.refusal == REFUSED_LAG:
            self.log.refusal = REFUSED_FORKED
        self.forget_slot()
        self.users = 0  # the parent's threads
        if self.native != NULL:
            cl_writer_set_largest(self.native.writer, self.native.largest)
            self.native = NULL
        cl_log_after_fork(&self.log)

    @property
    def slot(self):
        return self.log.slot if self.log.owner != 0 else None

    @property
    def refusal(self):
        """0 while appends are accepted, else the reason for which they are refused."""
        return self.log.refusal

    @refusal.setter
    def refusal(self, uint32_t value):
        self.pause_native()
        self.log.refusal = value
        self.resume_native()

    @property
    def pooled(self):
        return bool(cl_log_pooled(&self.log))

    def keep_index(self, uint32_t spacing):
        """Have commits build the indexes of the segments that they fill, with one entry per
        `spacing` records.
        """
        self.log.index_spacing = spacing

    @property
    def segment_size(self):
        """Bytes of each segment file, header included."""
        return self.log.segment_size

    @property
    def uncertain_from(self):
        """The position from which on a bad frame is the end, and not damage."""
        return self.log.uncertain_from

    @uncertain_from.setter
    def uncertain_from(self, uint64_t position):
        self.log.uncertain_from = position

    @property
    def ready_below(self):
        """The number below which every segment from the tail's on is durable, mapped and has its
        buffer: there a roll needs nothing but the kernel.
        """
        return self.log.ready_below

    @ready_below.setter
    def ready_below(self, uint64_t number):
        self.log.ready_below = number

    def poll_rolls(self, bint polls):
        """Set whether the caller polls the tail so often that no roll needs to wake it."""
        self.log.service_polls = polls

    # --- tail and watermarks ----------------------------------------------------------------------

    @property
    def tail(self):
        """The tail as (segment number, offset), or None where this handle cannot see it."""
        cdef const uint64_t *tail = cl_log_tail(&self.log)
        if tail == NULL:
            return None
        cdef uint64_t place = cl_load(tail)
        return cl_tail_number(place), cl_tail_offset(place)

    @tail.setter
    def tail(self, place):
        number, offset = place
        if self.log.tail == NULL:
            raise ValueError("this handle has no tail")
        cl_store(self.log.tail, cl_tail_pack(number, offset))

    def allocated(self, uint64_t number):
        """How much of a segment has blocks: its size, or less where the rest is a hole."""
        return cl_log_allocated(&self.log, number)

    def raise_allocated(self, uint64_t number, uint32_t offset):
        """Let claims use the blocks that segment `number` now has."""
        cl_raise(&self.log.cursors.allocated.value, cl_tail_pack(number, offset))

    @property
    def tail_position(self):
        """Where the next record would be claimed; frames below it may be unpublished. In another
        process's pooled log, the end of its committed records.
        """
        self.look()
        cdef const uint64_t *tail = cl_log_tail(&self.log)
        if tail == NULL:
            return self.committed_position
        return cl_log_upward(&self.log, cl_log_position(&self.log, cl_load(tail)))

    @property
    def appended_position(self):
        """The end of the prefix in which every claim is published or rolled back."""
        cdef uint64_t appended = 0
        cdef int code, cause
        self.look()
        if cl_log_tail(&self.log) == NULL:
            return self.committed_position
        if self.log.refusal == REFUSED_CLOSED or not self.cursors.writable:
            return cl_log_upward(&self.log, self.cursors.cells.appended.value)
        self.enter()
        with nogil:
            code = cl_log_appended(&self.log, &appended)
            cause = errno
        self.leave()
        if code != CL_OK:
            raise self.failed_with(code, cause, None)
        return cl_log_upward(&self.log, appended)

    @property
    def committed_position(self):
        """The end of the records in the segment files, which other processes see. On a mapped log
        the same as appended.
        """
        self.look()
        if not cl_log_pooled(&self.log):
            return self.appended_position
        return cl_log_upward(&self.log, self.cursors.cells.committed.value)

    @property
    def flushed_position(self):
        """The end of the records that survive a power loss."""
        self.look()
        return cl_log_upward(&self.log, self.cursors.cells.flushed.value)

    @property
    def replicated_position(self):
        """The end of the records that enough copies have durably; 0: none, as far as is known."""
        self.look()
        cdef uint64_t replicated = cl_load(&self.cursors.cells.replicated.value)
        return replicated if replicated > 1 else 0

    cpdef ask_for_flush(self):
        """Ask the writers' flush threads to flush all appended records at their next interval. Does
        nothing without permission to write `cursors`.
        """
        self.look()
        if self.cursors.shared and self.cursors.writable:
            cl_flush_ask(&self.log)

    # --- segments ---------------------------------------------------------------------------------

    def acquire(self, uint64_t number):
        """The segment with that number, mapped; the caller releases it. Raises as `Segment.open`.
        """
        cdef cl_segment *segment = NULL
        cdef int code, cause
        self.enter()
        with nogil:
            code = cl_table_acquire(&self.log.table, number, &segment)
            cause = errno
        self.leave()
        path = os.path.join(self.path, f"{number * self.log.segment_size:020d}.seg")
        if code != CL_OK:
            raise failure(code, cause, path=path, position=number * self.log.segment_size)
        return Segment.take(segment, path)

    def forget(self, uint64_t number):
        """Drop the handle's own reference to a segment; the next acquire opens the file anew.
        Returns how many others hold it.
        """
        cdef uint32_t others
        with nogil:
            others = cl_table_forget(&self.log.table, number)
        return others

    def trim(self, uint64_t number, size_t keep):
        """Unmap segments below `number` that only this handle holds, until `keep` are left."""
        with nogil:
            cl_table_trim(&self.log.table, number, keep)

    # --- the end ----------------------------------------------------------------------------------

    def stop(self):
        """End the loops, and wake the threads that wait for an event."""
        cl_log_stop(&self.log)

    def restart(self):
        """Let loops run again, after a fork."""
        self.log.stopping = 0

    @property
    def stopping(self):
        return self.log.stopping != 0

    def fail(self, int cause):
        """Fail the log for all its processes; the first cause stays."""
        if not self.cursors.writable:
            raise failure(CL_E_READ_ONLY, 0, path=self.path)
        cl_log_fail(&self.log, cause)

    def check_failed(self):
        """Raise `LogFailedError` if the log has failed."""
        if self.failed:
            raise self.failed_with(CL_E_FAILED, 0, None)

    @property
    def failed(self):
        """The errno that failed the log, or 0."""
        return <int>self.cursors.cells.failed.value
