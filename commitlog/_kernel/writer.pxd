from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint32_t, uint64_t

from commitlog._kernel.core cimport Core
from commitlog._kernel.kernel cimport cl_record_input, cl_writer


cdef enum:
    DROPPED = 0xFFFFFFFFFFFFFFFF  # no position: the record was dropped for the sake of a tailer that is behind


cdef object wrong_type(str what, value)
cdef int bytes_of(object value, str what, Py_buffer *view) except -1
cdef uint32_t type_of(object type) except? 0xFFFFFFFF
cdef int64_t timestamp_of(object timestamp_ns) except? -2


cdef class Writer(Core):
    cdef cl_writer writer
    cdef bint sync_default
    cdef double sync_timeout
    cdef dict claims  # position -> thread, of open claims

    cdef int64_t stamped(self, int64_t given_ns) except? -1
    cdef int advance(self) except -1
    cdef int settle(self, end, sync) except -1
    cdef int check_own_claims(self, uint64_t below) except -1
    cdef uint64_t put(self, const cl_record_input *record, bint durable) except 0
    cdef int overcome(self, int code, const cl_record_input *record, uint64_t records=*) except -1
    cdef bint takes(self)
    cdef object too_large(self, size)
