from commitlog._kernel.kernel cimport cl_cursors
from commitlog._kernel.memory cimport cl_memory


cdef class Cursors:
    cdef cl_cursors *cells
    cdef cl_memory area
    cdef readonly bint shared  # False: a private stand-in for a file that cannot be used
    cdef readonly bint writable
