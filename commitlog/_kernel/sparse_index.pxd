from libc.stdint cimport int64_t, uint64_t

from commitlog._kernel.kernel cimport cl_index


cdef class SparseIndex:
    cdef cl_index index
    cdef readonly uint64_t segment_id
    cdef readonly uint64_t segment_size

    cdef restore(self, bytes content, uint64_t records, int64_t largest_ns)
