from commitlog._kernel.kernel cimport cl_cursors


cdef class Cursors:
    cdef cl_cursors *cells
    cdef object mapping
    cdef readonly bint shared  # False: a private stand-in for a file that cannot be used
    cdef readonly bint writable
