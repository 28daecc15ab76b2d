from libc.stdint cimport uint32_t

from commitlog._kernel.kernel cimport cl_stretch
from commitlog._kernel.reader cimport Reader
from commitlog._kernel.sparse_index cimport SparseIndex


cdef class BackwardReader(Reader):
    cdef cl_stretch stretch
    cdef SparseIndex index  # of the segment that it stands in

    cdef int enter_before(self) except -1
    cdef int fill_stretch(self) except? -100
    cdef void keep_to_flushed(self)
    cdef int make_room(self, uint32_t spacing) except -1
    cdef int go_back(self, int code) except -1
    cdef object damaged_before(self)
