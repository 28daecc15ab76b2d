from libc.stdint cimport uint64_t, uint8_t

from commitlog._kernel.kernel cimport CL_UUID_SIZE, cl_cursors


cdef extern from "memory.h":
    ctypedef struct cl_memory:
        uint8_t *bytes
        size_t size
        uint8_t *mapped
        size_t mapped_size

    int cl_memory_map(cl_memory *memory, size_t size) nogil
    int cl_memory_map_descriptor(
        cl_memory *memory, int descriptor, uint64_t offset, size_t size, bint writable
    ) nogil
    int cl_memory_populate(const cl_memory *memory) nogil
    void cl_memory_touch(const cl_memory *memory) nogil
    void cl_memory_zero(const cl_memory *memory, size_t start, size_t stop) nogil
    int cl_memory_lock(const cl_memory *memory) nogil
    int cl_memory_unlock(const cl_memory *memory) nogil
    int cl_memory_unmap(cl_memory *memory) nogil
    int cl_memory_part(const cl_memory *memory, size_t kept) nogil


cdef inline const uint8_t *uuid_of(bytes uuid) except NULL:
    """The bytes of a uuid, which live as long as the object."""
    if len(uuid) != CL_UUID_SIZE:
        raise ValueError(f"a uuid must have {CL_UUID_SIZE} bytes, not {len(uuid)}")
    return <const uint8_t *><const char *>uuid


cdef class Memory:
    cdef uint8_t *bytes          # NULL once closed
    cdef readonly size_t size
    # views, native users and running calls; close() is refused while there are any
    cdef readonly Py_ssize_t holds
    cdef cl_memory area

    # For other modules of the kernel that keep the address: hold() before the first use, release()
    # after the last.
    cdef int hold(self) except -1
    cdef void release(self) noexcept


cdef class Cursors:
    cdef cl_cursors *cells
    cdef cl_memory area
    cdef readonly bint shared  # False: a private stand-in for a file that cannot be used
    cdef readonly bint writable
