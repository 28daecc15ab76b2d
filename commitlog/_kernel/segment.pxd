from commitlog._kernel.kernel cimport cl_segment


cdef class Segment:
    cdef cl_segment *segment
    cdef readonly str path
    cdef object keeper  # asked to hold the segment by name while a view of it is out

    @staticmethod
    cdef Segment take(cl_segment *segment, str path)
    cdef int check(self) except -1
    cdef cl_segment *held(self) except NULL
