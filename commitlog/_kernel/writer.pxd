from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint32_t, uint64_t

from commitlog._kernel.committer cimport Committer
from commitlog._kernel.kernel cimport cl_record_input, cl_writer


cdef enum:
    NOT_APPENDED = 0xFFFFFFFFFFFFFFFF  # no position: a required tailer is too far behind, and the record is dropped, or to be given again


cdef object wrong_type(str what, value)
cdef int bytes_of(object value, str what, Py_buffer *view) except -1
cdef bytes as_bytes(object value, str what)
cdef uint32_t type_of(object type) except? 0xFFFFFFFF
cdef int64_t timestamp_of(object timestamp_ns) except? -2


cdef class Writer(Committer):
    cdef cl_writer writer
    cdef bint sync_default
    cdef double sync_timeout
    cdef dict claims  # position -> thread, of open claims

    cdef int64_t stamped(self, int64_t given_ns) except? -1
    cdef int advance(self) except -1
    cdef int settle(self, end, sync) except -1
    cdef int check_own_claims(self, uint64_t below) except -1
    cdef uint64_t append_any(self, object value, object key, object type, object timestamp_ns, bint durable, bint waits) except 0
    cdef uint64_t put(self, const cl_record_input *record, bint durable, bint waits) except 0
    cdef int check_size(self, const cl_record_input *record) except -1
    cdef int overcome(self, int code, const cl_record_input *record, uint64_t records, bint waits) except -1
    cdef bint takes(self)
    cdef object too_large(self, size)
