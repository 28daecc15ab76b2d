from libc.stdint cimport int64_t

from commitlog._kernel.kernel cimport cl_record_input
from commitlog._kernel.writer cimport Writer


cdef class Appender(Writer):
    cdef int append_batches(self, cl_record_input *records, Py_ssize_t count, int64_t stamp, int64_t *positions) except -1
