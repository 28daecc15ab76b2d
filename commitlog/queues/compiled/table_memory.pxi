# The memory of a table: its lock, what it is of, and the sleep of workers.


cdef class TableMemory:
    """The memory that all workers of a queue share."""
    cdef clq_table *table
    cdef Py_buffer buffer
    cdef int fd                        # of the file with a locked byte for each live worker
    cdef readonly uint32_t worker      # CLQ_WORKERS: none, as in the child of a fork
    cdef readonly uint32_t generation
    cdef uint64_t instance             # of the table; 0: not known yet
    cdef uint64_t turns                # of this worker
    cdef readonly bint is_overwritten  # something else was written over the table
    cdef bint ending                   # no more jobs are taken, and no more acceptances begun
    cdef str path

    def __cinit__(self, memory, bint writable, int fd, str path):
        PyObject_GetBuffer(memory, &self.buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        if self.buffer.len < <Py_ssize_t>sizeof(clq_table):
            PyBuffer_Release(&self.buffer)
            raise ValueError("the memory is too small for a table")
        self.table = <clq_table *>self.buffer.buf
        self.fd = fd
        self.worker = CLQ_WORKERS
        self.path = path

    def __dealloc__(self):
        if self.buffer.obj is not None:
            PyBuffer_Release(&self.buffer)

    # --- the lock ---------------------------------------------------------------------------------

    cdef int lock(self) except -1:
        if self.worker >= CLQ_WORKERS:
            if self.ending:
                raise ClosedError("the queue was closed: open it again", path=self.path)
            raise ForkedError(
                "this worker is of the parent process, or was closed: open the queue again",
                path=self.path
            )
        cdef uint32_t mine = self.generation << 11 | (self.worker + 1)
        if not clq_try_lock(self.table, mine):
            return self.await_lock(mine)
        return self.take_turn()

    cdef int take_turn(self) except -1:
        """Refuse a table that is not the one of before, for all workers."""
        if clq_take_turn(self.table, self.instance, self.worker, &self.turns):
            return 0
        self.is_overwritten = True
        self.table.instance = 0
        memset(self.table.identity, 0, CLQ_IDENTITY)
        clq_unlock(self.table)
        raise IOFailureError(
            "`leases` was overwritten while the queue is open, such as by a backup: close the "
            "queue in every process, then open it again; jobs that are held come again",
            path=self.path, errno=5
        )

    cdef int await_lock(self, uint32_t mine) except -1:
        cdef int code = 0
        cdef int fd = self.fd
        cdef clq_table *table = self.table
        while True:
            with nogil:
                code = clq_await_lock(table, mine, fd)
            if code == CLQ_LOCKED:
                return self.take_turn()
            if code == CLQ_TAKEN_OVER:
                self.take_turn()
                clq_rebuild(table)
                return 0
            if code == CLQ_STALLED:
                raise IOFailureError(
                    f"process {clq_lock_pid(table)} is stopped in the middle of a change of this "
                    "queue: continue it, or kill it", path=self.path, errno=110
                )
            PyErr_CheckSignals()

    cdef void unlock(self) noexcept:
        clq_unlock(self.table)

    def leave(self):
        """Be no worker any more: in the child of a fork, or at the end."""
        self.worker = CLQ_WORKERS

    # --- identity and terms -----------------------------------------------------------------------

    @property
    def identity(self):
        return bytes(self.table.identity[:CLQ_IDENTITY])

    def set_identity(self, bytes identity):
        """Write what the table is of, last: before, it is not valid."""
        if len(identity) != CLQ_IDENTITY:
            raise ValueError("the identity has another size")
        memcpy(self.table.identity, <const char *>identity, CLQ_IDENTITY)

    @property
    def top(self):
        """Position and fingerprint of the last record below the scan."""
        return self.table.top, self.table.top_print

    @top.setter
    def top(self, tuple value):
        self.table.top, self.table.top_print = value

    @property
    def base(self):
        """Where the state log has its last base."""
        return self.table.base

    @base.setter
    def base(self, int64_t value):
        self.table.base = value

    @property
    def noted(self):
        """Behind which place the state log has a note of a finished job."""
        return self.table.noted

    def check(self):
        """Raise if something else was written over the table."""
        self.lock()
        self.unlock()

    def format(self, int64_t scan, tuple terms, int64_t suspect_below, uint64_t instance):
        """Make a table without jobs. The caller has the queue for itself."""
        cdef clq_terms given = terms_of(terms)
        memset(<uint8_t *>self.table + CLQ_IDENTITY, 0, sizeof(clq_table) - CLQ_IDENTITY)
        clq_format(self.table, scan, &given)
        self.table.instance = instance
        self.table.suspect_below = suspect_below

    def change_terms(self, tuple terms):
        cdef clq_terms given = terms_of(terms)
        self.lock()
        self.table.terms = given
        self.table.terms_version += 1
        clq_rebuild(self.table)
        self.unlock()

    @property
    def terms(self):
        """The lease in nanoseconds, `max_attempts`, both limits, and whether keys are in order."""
        cdef clq_terms *terms = &self.table.terms
        return (terms.lease_ns, terms.attempts_most, terms.in_flight, terms.worker_in_flight,
                bool(terms.ordered))

    @property
    def terms_version(self):
        """Rises with each change of the terms."""
        return self.table.terms_version

    @property
    def paused(self):
        return bool(self.table.paused)

    @paused.setter
    def paused(self, bint value):
        self.table.paused = value

    # --- sleep ------------------------------------------------------------------------------------

    def next_event_ns(self):
        """Return when the next wait or lease ends; 0 if there is none."""
        cdef int64_t due = 0, end
        self.lock()
        if self.table.waiting:
            due = clq_slot_at(self.table, self.table.waiting_heap[0]).until_ns
        if self.table.oldest != CLQ_NONE:
            end = clq_slot_at(self.table, self.table.oldest).until_ns
            due = end if due == 0 or end < due else due
        self.unlock()
        return due

    @property
    def ready(self):
        return self.table.ready

    def sleep(self, uint32_t seen, int64_t timeout_ns):
        """Sleep until `ready` differs from `seen`, or the time is over."""
        cdef clq_table *table = self.table
        with nogil:
            clq_sleep(table, seen, timeout_ns)
        PyErr_CheckSignals()

    def wake(self):
        """Wake one worker that sleeps in `sleep`."""
        clq_wake(self.table, 1)

    def wake_all(self):
        clq_wake(self.table, 0x7FFFFFFF)

    def watch(self):
        """Become the one that the log's appends wake; False if another live worker is."""
        cdef uint32_t mine = self.generation << 11 | (self.worker + 1)
        return clq_watch(self.table, mine, self.fd)

    def unwatch(self):
        """Let another worker watch, and wake one that sleeps."""
        cdef uint32_t mine = self.generation << 11 | (self.worker + 1)
        clq_unwatch(self.table, mine)

    @property
    def is_watched(self):
        return self.table.watcher != 0
