from libc.stdint cimport int64_t, uint8_t, uint32_t

from commitlog._kernel.kernel cimport cl_record_input


cdef class RowColumns:
    cdef readonly Py_ssize_t count
    cdef const uint8_t[::1] data
    cdef const int64_t[::1] offsets
    cdef const uint8_t[::1] keys
    cdef const int64_t[::1] key_offsets
    cdef const uint8_t[::1] keyed
    cdef const uint32_t[::1] types
    cdef const int64_t[::1] timestamps_ns

    cdef bint has_keys
    cdef bint has_types
    cdef bint has_timestamps

    cdef int fill(self, Py_ssize_t first, Py_ssize_t count, cl_record_input *records) except -1
