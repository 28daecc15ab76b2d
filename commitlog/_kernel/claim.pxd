from libc.stdint cimport uint8_t, uint32_t, uint64_t

from commitlog._kernel.kernel cimport cl_claim, cl_record_input, cl_segment
from commitlog._kernel.writer cimport Writer


cdef class ClaimBuffer:
    cdef cl_segment *segment
    cdef uint8_t *start
    cdef Py_ssize_t length
    cdef Py_ssize_t exports
    cdef Writer log
    cdef object memory  # the pool buffer, if it is one, and its lease: a view must not outlast them


cdef class Claim:
    cdef Writer log
    cdef object owner  # the `CommitLog`, which closes when it is dropped
    cdef bytes key
    cdef bint sync
    cdef bint open
    cdef uint64_t place
    cdef cl_claim native  # its segment is held, and its buffer in use, while the claim is open
    cdef cl_record_input record
    cdef ClaimBuffer exporter
    cdef object view

    cdef uint32_t head(self)
    cdef int publish(self) except -1
    cdef bint end_view(self)
    cdef int close(self) except -1
