from libc.stdint cimport int64_t, uint32_t

from commitlog._kernel.cursors cimport Cursors
from commitlog._kernel.kernel cimport cl_log

cdef int64_t nanoseconds(double seconds) noexcept


cdef class Core:
    cdef cl_log log
    cdef readonly Cursors cursors
    cdef readonly str path
    cdef object policy        # decides what the kernel cannot
    cdef bint ready           # `log` holds what `cl_log_clear` gives back
    cdef int64_t looked_ns    # when a reader without live cursors looked for them last
    cdef public object watcher  # wakes the coroutines that wait for records; made by the first of them
    cdef dict memories  # segment number -> (Memory, its lease), while a pool buffer is attached

    cdef int users            # calls that are in the kernel without the interpreter's lock, and use the log's files
    cdef bint leaving         # the log is closed: the last of them lets go of its files

    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef uint32_t *append_signal(self)
    cdef int look(self) except -1
    cpdef ask_for_flush(self)
    cdef object failed_with(self, int code, int cause, position)
