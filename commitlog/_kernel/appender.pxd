from libc.stdint cimport int64_t, uint64_t

from commitlog._kernel.claim cimport Claim
from commitlog._kernel.kernel cimport cl_record_input
from commitlog._kernel.record_list cimport RecordList
from commitlog._kernel.row_columns cimport RowColumns
from commitlog._kernel.writer cimport Writer


cdef class Engine(Writer):
    cdef object append_all(self, object values, object keys, object types, object timestamp_ns, object sync)
    cdef object append_rows(self, object rows, object timestamp_ns, object sync)
    cdef Claim new_claim(self, object owner, object size, object key, object type, object timestamp_ns, object sync)
    cdef bint append_rest(self, RecordList records, bint waits) except -1
    cdef Py_ssize_t append_batches(self, const cl_record_input *records, Py_ssize_t count, int64_t *positions, bint waits) except -1
    cdef int take_rows(self, RowColumns part, cl_record_input *records, int64_t stamp, int64_t *positions, uint64_t *end) except -1
