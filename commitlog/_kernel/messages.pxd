from libc.stdint cimport uint32_t, uint8_t


cdef class Shape:
    cdef readonly str name
    cdef readonly uint32_t type
    cdef readonly uint32_t size


cdef class MessageBytes:
    cdef uint8_t *data  # its own bytes, or a claim's while it is in place
    cdef uint8_t *own
    cdef Shape shape

    cdef void place_at(self, uint8_t *claimed) noexcept
    cdef void take_home(self) noexcept
