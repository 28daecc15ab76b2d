from libc.stdint cimport int64_t, uint64_t

from commitlog._kernel.columns cimport Shelf
from commitlog._kernel.core cimport Core
from commitlog._kernel.kernel cimport cl_batch, cl_idle, cl_reader, cl_record
from commitlog._kernel.segment cimport Segment
from commitlog._kernel.tailer_page cimport TailerPage


cdef struct Patience:
    # How long to wait for a record, and how.
    int64_t budget_ns
    bint endless
    cl_idle idle


cdef class Reader:
    cdef cl_reader reader
    cdef readonly Core core
    cdef Segment segment
    cdef uint64_t pending  # the position to start at, while no segment is entered
    cdef bint busy         # in a call without the interpreter's lock, or in one to a subclass
    cdef bint dropping     # `drop_place` was called meanwhile
    cdef bint ended        # a named tailer that was closed: its place is somebody else's now
    cdef bint turned       # it reads backward
    cdef Shelf shelf       # memory for batches
    cdef TailerPage page   # where a named tailer's place is kept; None: it has no name

    cdef int guard(self) except -1
    cdef int rest(self) except -1
    cdef int keep_place(self) except -1
    cdef int next_record(self, cl_record *record) except? -100
    cdef int enter(self) except? -100
    cdef object damaged(self)
    cdef int previous_record(self, cl_record *record) except? -100
    cdef tuple batch_back(self, Py_ssize_t max_records, Py_ssize_t max_bytes)
    cdef Patience patience_of(self, object timeout, object idle)
    cdef int await_record(self, cl_record *record, Patience patience, bint keeps=*) except? -100
    cdef bint wait_for(self, cl_idle idle, int64_t budget_ns) except -1
    cdef int batch_alone(self, cl_batch *batch) except? -100
    cdef Py_ssize_t room(self, Py_ssize_t max_bytes)
