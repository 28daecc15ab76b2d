from libc.stdint cimport uint64_t

from commitlog._kernel.columns cimport Shelf
from commitlog._kernel.core cimport Core
from commitlog._kernel.kernel cimport cl_reader, cl_record
from commitlog._kernel.segment cimport Segment


cdef class Reader:
    cdef cl_reader reader
    cdef readonly Core core
    cdef Segment segment
    cdef uint64_t pending  # the position to start at, while no segment is entered
    cdef bint busy
    cdef Shelf shelf       # memory for batches

    cdef int guard(self) except -1
    cdef int next_record(self, cl_record *record) except? -100
    cdef int enter(self) except? -100
    cdef object damaged(self)
    cdef Py_ssize_t room(self, Py_ssize_t max_bytes)


cdef class Record:
    cdef readonly uint64_t position
    cdef readonly long long timestamp_ns
    cdef readonly unsigned int type
    cdef readonly object key
    cdef readonly bytes value
    cdef Segment segment
    cdef unsigned int value_offset
