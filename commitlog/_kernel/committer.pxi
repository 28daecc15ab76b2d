# Commits and flushes, writes the checkpoint, and records latencies.

cdef int64_t SLICE_NS = 50_000_000  # how long any wait may keep Ctrl-C waiting
cdef tuple LATENCIES = ("commit", "flush", "sync", "roll", "claim", "lag")  # as in log.h


@cython.no_gc_clear
cdef class Committer(Core):
    """A core that makes its records durable, and records how long its operations take."""

    def commit(self, uint64_t upto):
        """Commit what is published; True when everything below `upto` now is.

        Raises
        ------
        LogFailedError
            The log has failed.
        """
        cdef int code, cause
        self.enter()
        with nogil:
            code = cl_commit(&self.log, upto)
            cause = errno
        self.leave()
        if code == CL_E_BUSY:
            return False
        if code != CL_OK:
            raise self.failed_with(code, cause, None)
        return True

    def flush_to(self, uint64_t upto, double timeout):
        """Wait, at most `timeout` seconds, until everything below `upto` is durable, and lead a
        flush if there is no leader. A leader may exceed the timeout by one `msync`.

        Raises
        ------
        SyncTimeoutError
            The time passed. The records stay in the log.
        LogFailedError
            The log has failed.
        """
        cdef int64_t deadline_ns = cl_clock_monotonic_ns() + nanoseconds(timeout)
        cdef int64_t now_ns
        cdef int64_t slice_ns
        cdef int code, cause
        while True:
            now_ns = cl_clock_monotonic_ns()
            slice_ns = min(now_ns + SLICE_NS, deadline_ns)
            self.enter()
            with nogil:
                code = cl_flush(&self.log, upto, slice_ns)
                cause = errno
            cl_flush_pass_on(&self.log)
            self.leave()
            if code == CL_OK:
                return
            if code != CL_E_TIMEOUT and code != CL_E_INTERRUPTED:
                raise self.failed_with(code, cause, upto)
            PyErr_CheckSignals()
            if now_ns >= deadline_ns:
                raise self.failed_with(CL_E_TIMEOUT, 0, upto)

    def make_durable(self, uint64_t upto, double timeout):
        """Wait as `flush_to` does, then until enough copies have everything below `upto`.

        Raises
        ------
        SyncTimeoutError, LogFailedError, FencedError, ClosedError, ForkedError
            What was appended stays in the log.
        """
        self.flush_to(upto, timeout)
        if self.copies is not None:
            self.copies.complete(upto, timeout)

    cdef int run_loop(
        self, loop_of loop, int64_t interval_ns, int64_t thorough_ns, uint64_t least_bytes
    ) except -1:
        cdef cl_pace pace = cl_pace(interval_ns, thorough_ns, least_bytes)
        cdef int code, cause
        self.enter()
        with nogil:
            code = loop(&self.log, &pace)
            cause = errno
        self.leave()
        if code != CL_OK:
            raise self.failed_with(code, cause, None)
        return 0

    def run_commit_loop(self, int64_t interval_ns, int64_t thorough_ns, uint64_t least_bytes):
        """Commit until `stop`; the caller's thread, without the GIL."""
        self.run_loop(cl_commit_loop, interval_ns, thorough_ns, least_bytes)

    def run_flush_loop(self, int64_t interval_ns, int64_t thorough_ns, uint64_t least_bytes):
        """Flush until `stop`; the caller's thread, without the GIL."""
        self.run_loop(cl_flush_loop, interval_ns, thorough_ns, least_bytes)

    def announce_flushes(self):
        """From now on a flush of this handle ends each `wait_flush` also when it begins."""
        self.log.announces = 1

    # --- checkpoint -------------------------------------------------------------------------------

    def keep_checkpoint(self, int fd, uint64_t count, int64_t interval_ns):
        """Have flushes write the checkpoint through `fd`, at most once an interval; -1 ends that.
        """
        self.log.checkpoint_fd = fd
        self.log.checkpoint_count = count
        self.log.checkpoint_interval_ns = interval_ns
        self.log.checkpoint_written_ns = cl_clock_monotonic_ns()
        self.log.checkpoint_settled_ns = self.log.checkpoint_written_ns
        self.log.checkpoint_settled = 0

    def write_checkpoint(self, uint64_t position, bint clean):
        """Write the checkpoint now, durably."""
        cdef int code, cause
        self.enter()
        with nogil:
            code = cl_checkpoint_write(&self.log, position, clean, True)
            cause = errno
        self.leave()
        if code != CL_OK:
            raise self.failed_with(code, cause, position)

    def settle_checkpoint(self, below=None):
        """Have the checkpoint cover the flushed position durably, before segments below a position
        are deleted; with None, if that is due because the log was flushed and is idle.

        Raises
        ------
        LogFailedError
            The checkpoint could not be written.
        """
        cdef uint64_t limit = 0 if below is None else below
        cdef int code
        self.enter()
        with nogil:
            code = (cl_checkpoint_settle(&self.log, limit) if limit
                    else cl_checkpoint_settle_due(&self.log))
        self.leave()
        if code != CL_OK:
            raise self.failed_with(code, 0, None)

    # --- latencies --------------------------------------------------------------------------------

    cdef cl_histogram *histogram(self, str name) except NULL:
        cdef Py_ssize_t at = LATENCIES.index(name)
        return <cl_histogram *>&self.log.latencies + at

    def latency(self, str name):
        """How long "commit", "flush", "sync", "roll", "claim" or "lag" has taken, as (buckets,
        total_ns, longest_ns). A bucket is a pair: its largest nanoseconds, and its count. Empty
        buckets are left out.
        """
        cdef cl_histogram *histogram = self.histogram(name)
        cdef uint32_t bucket
        cdef uint64_t count
        buckets = []
        for bucket in range(CL_HISTOGRAM_BUCKETS):
            count = cl_load(&histogram.counts[bucket])
            if count != 0:
                buckets.append((cl_histogram_upto(bucket), count))
        return tuple(buckets), cl_load(&histogram.total_ns), cl_load(&histogram.longest_ns)

    def note_latency(self, str name, int64_t took_ns):
        """Add a duration that was measured elsewhere."""
        cl_histogram_add(self.histogram(name), took_ns)

    def count_above(self, str name, uint64_t value_ns):
        """Return how many durations of a latency were longer."""
        return cl_histogram_above(self.histogram(name), value_ns)

    def log_counters(self):
        """What commit and flush have done through this handle, by name."""
        return self.log.counters

    # --- pool buffers -----------------------------------------------------------------------------

    def attach(self, Segment segment not None, Memory memory not None, lease=None, *,
               bint opening=False):
        """Attach a zeroed buffer for a segment's claims, until `detach`. The views of its claims
        keep the lease alive, beyond that if necessary.

        Return False, and attach nothing, if the log has entered the segment: claims may be in the
        mapping. While the log is `opening`, there are none.
        """
        segment.check()
        if memory.size < segment.segment.size:
            raise ValueError("the buffer is smaller than the segment")
        if segment.segment.bytes != segment.segment.map:
            raise ValueError("the segment has a buffer")
        memory.hold()
        self.memories[segment.segment.number] = (memory, lease)
        # No Python code runs from here on, so no thread rolls into the segment meanwhile.
        if not opening and self.has_entered(segment.segment.number):
            del self.memories[segment.segment.number]
            memory.release()
            return False
        segment.segment.drained = 0
        segment.segment.bytes = memory.bytes
        return True

    cdef bint has_entered(self, uint64_t number) noexcept:
        return self.log.tail != NULL and cl_tail_number(cl_load(self.log.tail)) >= number

    def detach(self, Segment segment not None):
        """Detach the buffer, if there is one; any further claims live in the mapping."""
        segment.check()
        with nogil:
            cl_log_pass_commits(&self.log)
        segment.segment.bytes = segment.segment.map
        self.release_memory(segment)

    def detach_unused(self, Segment segment not None):
        """Detach a buffer in which nothing was claimed; return False, and keep it, if the log has
        entered the segment.
        """
        segment.check()
        if self.has_entered(segment.segment.number):
            return False
        segment.segment.bytes = segment.segment.map
        self.release_memory(segment)
        return True

    cdef int release_memory(self, Segment segment) except -1:
        held = self.memories.pop(segment.segment.number, None)
        if held is not None:
            (<Memory>held[0]).release()
        return 0
