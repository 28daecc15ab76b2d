# What is in a table.


cdef class TableFigures(TableMemory):
    """The figures of a queue, and copies of its jobs."""

    @property
    def scan(self):
        """Where the first record begins that no worker has seen."""
        return self.table.scan

    @scan.setter
    def scan(self, int64_t value):
        self.table.scan = value

    @property
    def unfinished(self):
        return self.table.unfinished

    @property
    def acquired(self):
        return self.table.acquired

    @property
    def own_acquired(self):
        """How many jobs this worker holds, or is accepting."""
        return self.table.workers[self.worker % CLQ_WORKERS].acquired

    @property
    def others_acquired(self):
        """Whether other workers hold jobs."""
        return self.table.acquired > self.table.workers[self.worker % CLQ_WORKERS].acquired

    def low(self):
        """Return the lowest position of an unfinished job."""
        self.lock()
        cdef int64_t low = clq_low(self.table)
        self.unlock()
        return low

    def snapshot(self):
        """Return where the scan is, and a `TableJob` tuple of each job, by position; of one moment
        if this is a worker.
        """
        cdef uint32_t i
        cdef clq_slot slot
        cdef list jobs = []
        cdef clq_slot *slots = <clq_slot *>PyMem_Malloc(CLQ_SLOTS * sizeof(clq_slot))
        if slots == NULL:
            raise MemoryError
        try:
            if self.worker < CLQ_WORKERS:
                self.lock()
            scan = self.table.scan
            memcpy(slots, self.table.slots, CLQ_SLOTS * sizeof(clq_slot))
            if self.worker < CLQ_WORKERS:
                self.unlock()
            for i in range(CLQ_SLOTS):
                slot = slots[i]
                if not CLQ_FREE < clq_state_of(slot.word) <= CLQ_WAITING:
                    continue  # no job, or not a state: another program ruined the file
                jobs.append((
                    slot.start, slot.position, slot.stop, slot.key, slot.print,
                    clq_attempt_of(slot.word), _STATES[clq_state_of(slot.word)],
                    clq_worker_of(slot.word), slot.until_ns, slot.taken_ns, slot.history,
                    clq_flags_of(slot.word), i, slot.noted_from,
                ))
        finally:
            PyMem_Free(slots)
        jobs.sort(key=lambda job: job[1])
        return scan, jobs

    def counts(self):
        cdef clq_table *table = self.table
        return {
            "available": table.available, "waiting": table.waiting, "acquired": table.acquired,
            "unfinished": table.unfinished, "taken": table.taken, "accepted": table.accepted,
            "released": table.released, "expired": table.expired, "orphaned": table.orphaned,
            "dead": table.dead,
        }

    def workers(self):
        """Return number, pid, jobs and beginning of the workers that hold jobs or live."""
        cdef uint32_t i
        return [
            (i, self.table.workers[i].pid, self.table.workers[i].acquired,
             self.table.workers[i].since_ns)
            for i in range(CLQ_WORKERS)
            if self.table.workers[i].acquired or (
                self.table.workers[i].pid and (i == self.worker or not clq_is_dead(self.fd, i)))
        ]
