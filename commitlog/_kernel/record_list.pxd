from libc.stdint cimport uint64_t

from commitlog._kernel.kernel cimport cl_record_input
from commitlog._kernel.writer cimport Writer


cdef class RecordList:
    cdef list values
    cdef list keys
    cdef cl_record_input *records
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t done
    cdef readonly object positions

    cdef int fill(self, Writer log, Py_ssize_t index) except -1
    cdef uint64_t end(self)
