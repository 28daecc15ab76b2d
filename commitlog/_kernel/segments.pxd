from libc.stdint cimport int64_t, uint64_t, uint8_t

from commitlog._kernel.kernel cimport cl_headers, cl_index, cl_segment


cdef dict decode_headers(const cl_headers *found)
cdef cl_headers *headers_in(list encoded) except? NULL


cdef class Segment:
    cdef cl_segment *segment
    cdef readonly str path
    cdef object keeper  # asked to hold the segment by name while a view of it is out
    cdef object index   # asked for sequences; its `finder` counts
    cdef object finder
    cdef uint64_t anchor_offset  # a frame whose sequence is known; 0: none
    cdef uint64_t anchor_sequence

    @staticmethod
    cdef Segment take(cl_segment *segment, str path)
    cdef int check(self) except -1
    cdef cl_segment *held(self) except NULL
    cdef cl_segment *held_at(self, uint64_t offset) except NULL
    cdef uint8_t *bytes_at(self, uint64_t offset, uint64_t length, uint64_t least) except NULL


cdef class SparseIndex:
    cdef cl_index index
    cdef readonly uint64_t segment_id
    cdef readonly uint64_t segment_size

    cdef restore(self, bytes content, uint64_t records, int64_t largest_ns, uint64_t end)
