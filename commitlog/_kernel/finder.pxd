from libc.stdint cimport uint64_t

from commitlog._kernel.core cimport Core
from commitlog._kernel.kernel cimport cl_hop, cl_segment, cl_watch
from commitlog._kernel.segment cimport Segment


cdef class Finder:
    cdef readonly Core core
    cdef cl_watch watch

    cdef cl_hop hop(self, const cl_segment *segment, uint64_t passed)
    cdef int count(self, const cl_segment *segment, uint64_t start, uint64_t stop, uint64_t *records)


cdef object sequence_of(Segment segment, uint64_t offset)
cdef void move_anchor(Segment segment, uint64_t offset, uint64_t sequence)
