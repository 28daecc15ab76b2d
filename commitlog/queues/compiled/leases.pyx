"""The table of a queue's leases in shared memory, its lock, and what a job holds of it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.buffer cimport Py_buffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from commitlog.errors import ClosedError, ForkedError, IOFailureError

cdef extern from "crc32c.h" nogil:
    uint32_t cl_crc32c(uint32_t crc, const void *bytes, size_t length)

include "lease_table.pxi"
include "table_lock.pxi"


cdef enum:
    _MOST = 4096        # jobs of one call
    _DONE_HEAD = 24     # bytes of a note before its spans: see `queues/notes.py`

TABLE_SIZE = sizeof(clq_table)
SLOTS = CLQ_SLOTS
WORKERS = CLQ_WORKERS
IDENTITY_SIZE = CLQ_IDENTITY
MOST = _MOST
PENDING, SUSPECT, DYING, AGAIN = CLQ_PENDING, CLQ_SUSPECT, CLQ_DYING, CLQ_AGAIN
LEASE_ENDED, WORKER_DIED = CLQ_LEASE_ENDED, CLQ_WORKER_DIED
_STATES = {CLQ_AVAILABLE: "available", CLQ_ACQUIRED: "acquired", CLQ_ACCEPTING: "accepting",
           CLQ_WAITING: "waiting"}


cdef class Lease:
    """What a worker holds of a job; the base of `Job`."""
    cdef clq_lease lease
    cdef readonly int64_t start, position, stop
    cdef readonly int64_t until_ns, history
    cdef readonly unsigned int attempt, flags, cause, worker, generation
    cdef readonly uint64_t print
    cdef public object queue, record
    cdef public object finished  # how, once it is


include "table_memory.pxi"
include "table_figures.pxi"


cdef class LeaseTable(TableFigures):
    """The table of one queue, as one worker sees it. Times are of CLOCK_BOOTTIME.

    Methods are short, hold the lock of the table, and run no Python code while they do.
    """

    def become(self, uint32_t worker, uint32_t pid, int64_t now_ns):
        """Be a worker, whose byte the caller has locked; give back what the last one held.

        Return what it was about to accept.
        """
        cdef clq_worker *place = &self.table.workers[worker]
        if self.instance == 0:
            self.instance = self.table.instance
        # Above all turns of earlier workers there, which take less than one a nanosecond.
        place.turns = self.turns = <uint64_t>now_ns
        place.generation = (place.generation + 1) & 0xFFFFF
        place.pid = pid
        place.since_ns = now_ns
        self.generation = place.generation
        self.worker = worker
        self.ending = False
        return self.orphan(worker, self.generation)

    # --- jobs -------------------------------------------------------------------------------------

    def acquire(self, object job_class, object queue, uint32_t most, int64_t now_ns,
                bint purges):
        """Acquire available jobs; to purge them, also if the queue is paused.

        Return them, as objects of a class of leases, and whether a limit prevented more: 1 that of
        the queue, 2 that of the worker.
        """
        cdef clq_lease leases[_MOST]
        cdef clq_limit limit = CLQ_UNLIMITED
        cdef uint32_t count, i
        cdef list jobs
        cdef Lease job
        if self.ending:
            raise ClosedError("the queue was closed: open it again", path=self.path)
        self.lock()
        if self.table.oldest != CLQ_NONE:
            clq_expire(self.table, now_ns)
        if self.table.waiting:
            clq_wake_due(self.table, now_ns)
        count = 0
        if purges or not self.table.paused:
            count = clq_acquire(self.table, self.worker, min(most, _MOST), now_ns, purges, leases,
                                &limit)
        self.unlock()
        if count > 0 and self.table.available > 0 and self.table.sleepers > 0:
            clq_wake(self.table, 1)
        # The slots of held jobs do not change, except by the end of a lease.
        jobs = []
        for i in range(count):
            job = <Lease>Lease.__new__(job_class)
            self.describe(job, leases[i])
            job.queue = queue
            jobs.append(job)
        return jobs, limit

    cdef void describe(self, Lease job, clq_lease lease) noexcept:
        cdef clq_slot *slot = &self.table.slots[lease.slot]
        cdef uint64_t word = slot.word
        job.lease = lease
        job.start, job.position, job.stop = slot.start, slot.position, slot.stop
        job.print, job.history, job.cause = slot.print, slot.history, slot.cause
        job.until_ns = slot.until_ns
        job.attempt, job.flags = clq_attempt_of(word), clq_flags_of(word)
        job.worker, job.generation = self.worker, self.generation

    def add(self, int64_t start, int64_t stop, list records, object last):
        """Add the records that a scan found between two places; `last` is its last record, or None.

        Return how many there was room for; -1 if another worker has scanned from `start`.
        """
        cdef Py_ssize_t count = len(records), i
        cdef int64_t added
        cdef clq_found top
        if last is not None:
            top.position = last.position
            top.print = print_of(last)
        cdef clq_found *native = <clq_found *>PyMem_Malloc((count + 1) * sizeof(clq_found))
        if native == NULL:
            raise MemoryError
        try:
            for i in range(count):
                record = records[i]
                native[i].start = start
                native[i].position = start = record.position
                native[i].key = hash_of(record.key)
                native[i].print = print_of(record)
                if i > 0:
                    native[i].start = native[i - 1].stop = start
                native[i].stop = stop
            self.lock()
            added = clq_add(
                self.table, native[0].start if count else start, stop, native, <uint32_t>count,
                NULL if last is None else &top
            )
            self.unlock()
        finally:
            PyMem_Free(native)
        return added

    def restore(self, tuple found, uint32_t attempt, int64_t until_ns, int64_t history,
                uint32_t flags):
        """Add one record that is not where the scan is; False if there is no room."""
        cdef clq_found native
        fill_found(&native, found)
        self.lock()
        cdef bint added = clq_restore(self.table, &native, attempt, until_ns, history, flags)
        self.unlock()
        return added

    def confirm(self, list jobs):
        """Count the attempts of jobs, which are durable; return the jobs that are still held."""
        cdef Lease job
        cdef list held = []
        self.lock()
        for job in jobs:
            if clq_is_held(self.table, job.lease, self.worker):
                clq_confirm(self.table, job.lease)
                held.append(job)
        self.unlock()
        return held

    def is_held(self, Lease job not None):
        return self.worker == job.worker and clq_is_held(self.table, job.lease, self.worker)

    def begin_accept(self, list jobs, int64_t noted_from):
        """Begin to accept the jobs that are held; their note will not be below `noted_from`.

        Return them, and the note of their spans; an empty note if there is none.
        """
        cdef Lease job
        cdef Lease top = None
        cdef Py_ssize_t count = len(jobs)
        cdef Py_ssize_t size = 0
        cdef list held = []
        cdef bytes note = PyBytes_FromStringAndSize(NULL, _DONE_HEAD + 16 * count)
        cdef char *head = PyBytes_AS_STRING(note)
        cdef int64_t *spans = <int64_t *>(head + _DONE_HEAD)
        if self.worker >= CLQ_WORKERS or self.ending:
            return held, b""  # in the child of a fork, or closed
        self.lock()
        for job in jobs:
            if not clq_is_held(self.table, job.lease, self.worker):
                continue
            clq_begin_accept(self.table, job.lease, noted_from)
            if size > 0 and spans[2 * size - 1] == job.start:
                spans[2 * size - 1] = job.stop
            else:
                spans[2 * size] = job.start
                spans[2 * size + 1] = job.stop
                size += 1
            if top is None or job.position > top.position:
                top = job
            held.append(job)
        self.unlock()
        if top is None:
            return held, b""
        (<int64_t *>head)[0] = top.position
        (<uint64_t *>head)[1] = top.print
        (<uint64_t *>head)[2] = <uint64_t>size
        return held, note[:_DONE_HEAD + 16 * size]

    def undo_accept(self, list jobs):
        """Hold jobs again that this worker began to accept."""
        cdef Lease job
        self.lock()
        for job in jobs:
            if clq_is_accepting(self.table, job.lease, self.worker):
                clq_undo_accept(self.table, job.lease)
        self.unlock()

    def finish(self, list jobs, uint32_t dead=0):
        """Free the slots of jobs that this worker began to accept."""
        cdef Lease job
        self.lock()
        for job in jobs:
            if clq_is_accepting(self.table, job.lease, self.worker):
                clq_finish(self.table, job.lease.slot)
        self.table.accepted += len(jobs) - dead
        self.table.dead += dead
        self.unlock()

    def release(self, Lease job not None, int64_t until_ns, bint tried):
        """Give a job back; False if it is not held any more."""
        self.lock()
        cdef bint held = clq_is_held(self.table, job.lease, self.worker)
        if held:
            clq_release(self.table, job.lease, until_ns, tried)
        self.unlock()
        return held

    def renew(self, Lease job not None, int64_t now_ns):
        self.lock()
        cdef bint held = clq_is_held(self.table, job.lease, self.worker)
        if held:
            clq_renew(self.table, job.lease, now_ns)
            job.until_ns = self.table.slots[job.lease.slot].until_ns
        self.unlock()
        return held

    def doom(self, Lease job not None):
        """Mark a held job as one that becomes a dead letter; False if it is not held any more."""
        self.lock()
        cdef bint held = clq_is_held(self.table, job.lease, self.worker)
        if held:
            clq_doom(self.table, job.lease)
        self.unlock()
        return held

    def set_history(self, Lease job not None, int64_t history):
        """Note where the state log has what happened to a held job."""
        self.lock()
        cdef bint held = clq_is_held(self.table, job.lease, self.worker)
        if held:
            self.table.slots[job.lease.slot].history = history
        self.unlock()
        job.history = history
        return held

    def move_history(self, uint32_t slot, int64_t known, int64_t history):
        """Note that what happened to a job is at another place, unless more has happened."""
        self.lock()
        if self.table.slots[slot].history == known:
            self.table.slots[slot].history = history
        self.unlock()

    def expire(self, int64_t now_ns):
        """Take jobs back whose lease has ended."""
        self.lock()
        clq_expire(self.table, now_ns)
        self.unlock()

    def wake_due(self, int64_t now_ns):
        """Make waiting jobs available whose time has come."""
        self.lock()
        cdef uint32_t count = clq_wake_due(self.table, now_ns)
        self.unlock()
        return count

    # --- dead workers -----------------------------------------------------------------------------

    def orphan(self, uint32_t worker, uint32_t generation):
        """Take all jobs of a dead worker back; return those that it was about to accept.

        They are this worker's then, so that another one takes them if this one dies, too. If a
        process has taken the place meanwhile, do nothing.
        """
        cdef uint32_t count, i
        cdef Lease job
        cdef list jobs = []
        cdef clq_lease *accepting = <clq_lease *>PyMem_Malloc(CLQ_SLOTS * sizeof(clq_lease))
        if accepting == NULL:
            raise MemoryError
        try:
            self.lock()
            count = 0
            if self.table.workers[worker].generation == generation:
                clq_orphan(self.table, worker, accepting, CLQ_SLOTS, &count)
            for i in range(count):
                clq_adopt(self.table, accepting[i].slot, self.worker)
            self.unlock()
            for i in range(count):
                job = Lease.__new__(Lease)
                self.describe(job, accepting[i])
                jobs.append(job)
        finally:
            PyMem_Free(accepting)
        return jobs

    def end(self):
        """Give back what this worker holds, and take no more. What its other threads are accepting
        is theirs: `own_acquired` is 0 when they have done so.
        """
        cdef uint32_t accepting = 0
        self.ending = True
        self.lock()
        clq_orphan(self.table, self.worker, NULL, 0, &accepting)
        self.unlock()

    def dead_workers(self):
        """Return number and generation of the workers that hold jobs and do not live."""
        cdef uint32_t i, generation
        cdef list dead = []
        if self.table.acquired == self.table.workers[self.worker % CLQ_WORKERS].acquired:
            return dead
        for i in range(CLQ_WORKERS):
            generation = self.table.workers[i].generation  # before the look at its byte
            if i != self.worker and self.table.workers[i].acquired and clq_is_dead(self.fd, i):
                dead.append((i, generation))
        return dead


def note_of(list jobs not None):
    """Return the note of jobs that are done."""
    cdef Lease job, top = None
    cdef Py_ssize_t i = 0, count = len(jobs)
    cdef bytes note = PyBytes_FromStringAndSize(NULL, _DONE_HEAD + 16 * count)
    cdef char *head = PyBytes_AS_STRING(note)
    cdef int64_t *spans = <int64_t *>(head + _DONE_HEAD)
    for job in jobs:
        spans[2 * i], spans[2 * i + 1] = job.start, job.stop
        if top is None or job.position > top.position:
            top = job
        i += 1
    (<int64_t *>head)[0] = top.position
    (<uint64_t *>head)[1] = top.print
    (<uint64_t *>head)[2] = <uint64_t>count
    return note


def key_hash(key):
    """Return the hash by which a queue keeps the order of a key; 0 if there is none."""
    return hash_of(key)


def fingerprint(record):
    """Return a hash of a record, which another record at its position does not have."""
    return print_of(record)


cdef uint64_t hash_of(object key) except? 0:
    if key is None:
        return 0
    cdef bytes text = key
    cdef uint64_t crc = cl_crc32c(0, <const uint8_t *>PyBytes_AS_STRING(text), len(text))
    return (crc * 0x9E3779B97F4A7C15u) | 1


cdef uint64_t print_of(object record) except? 0:
    cdef bytes value = record.value
    cdef int64_t timestamp_ns = record.timestamp_ns
    cdef uint64_t crc = cl_crc32c(0, <const uint8_t *>PyBytes_AS_STRING(value), len(value))
    cdef uint64_t kind = record.type
    return (<uint64_t>timestamp_ns * 0x9E3779B97F4A7C15u) ^ (kind << 32) ^ crc


cdef int fill_found(clq_found *native, tuple found) except -1:
    native.start, native.position, native.stop = found[0], found[1], found[2]
    native.key, native.print = found[3], found[4]
    return 0


cdef clq_terms terms_of(tuple terms) except *:
    cdef clq_terms given
    given.lease_ns, given.attempts_most = terms[0], terms[1]
    given.in_flight, given.worker_in_flight, given.ordered = terms[2], terms[3], terms[4]
    return given
