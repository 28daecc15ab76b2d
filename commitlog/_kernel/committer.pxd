from libc.stdint cimport int64_t, uint64_t

from commitlog._kernel.core cimport Core
from commitlog._kernel.kernel cimport cl_histogram, cl_log, cl_pace

ctypedef int (*loop_of)(cl_log *log, const cl_pace *pace) noexcept nogil


cdef class Committer(Core):
    cdef int run_loop(self, loop_of loop, int64_t interval_ns, int64_t thorough_ns, uint64_t least_bytes) except -1
    cdef cl_histogram *histogram(self, str name) except NULL
