from libc.stdint cimport uint8_t

from commitlog._kernel.kernel cimport cl_batch


cdef class Shelf:
    cdef uint8_t *bytes  # one spare block, or NULL
    cdef size_t size

    cdef Block take(self, size_t size)
    cdef void put(self, uint8_t *bytes, size_t size) noexcept


cdef class Block:
    cdef uint8_t *bytes
    cdef size_t size
    cdef Shelf shelf


cdef class Columns:
    cdef cl_batch native
    cdef Block block

    cdef object column(self, const void *start, Py_ssize_t items, object dtype)
    cdef tuple cut(self)
