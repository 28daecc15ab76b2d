from libc.stdint cimport int64_t, uint64_t

from commitlog._kernel.kernel cimport cl_tailer_mark
from commitlog._kernel.memory cimport cl_memory


cdef class TailerPage:
    cdef cl_tailer_mark mark
    cdef cl_memory area
    cdef int64_t sync_every_ns    # -1: never
    cdef int64_t synced_ns
    cdef bint unsynced
    cdef bint closed              # nothing more is saved: others may have the place

    cdef int save_place(self, uint64_t position) except -1
