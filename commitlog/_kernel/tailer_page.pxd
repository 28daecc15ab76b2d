from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef class TailerPage:
    cdef uint8_t *page
    cdef readonly object mapping
    cdef uint32_t forks           # of this process, when the page was mapped
    cdef uint32_t count
    cdef int64_t now_ns           # the time as of one of the last saves
    cdef uint64_t saved           # the position that was saved last
    cdef int64_t sync_every_ns    # -1: never
    cdef int64_t synced_ns
    cdef bint idle                # nothing new since the last save: time has passed
    cdef bint unsynced
    cdef bint closed              # nothing more is saved: others may have the place

    cdef int save_place(self, uint64_t position) except -1
