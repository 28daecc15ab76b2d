# The memory of a segment as Python's memoryviews see it.


cdef class SegmentView:
    """The exporter behind a view: one more reference to the mapping, and a hold with a name where
    there is a keeper.
    """
    cdef cl_segment *segment
    cdef uint64_t offset
    cdef Py_ssize_t length
    cdef object held  # (file, token)

    def __cinit__(self, Segment segment, uint64_t offset, Py_ssize_t length, held):
        cl_segment_hold(segment.segment)
        self.segment = segment.segment
        self.offset = offset
        self.length = length
        self.held = held

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.segment.map + self.offset, self.length, 1, flags)

    def __del__(self):
        if self.held is not None:
            file, token = self.held
            file.release(token)

    def __dealloc__(self):
        if self.segment != NULL:
            cl_segment_release(self.segment)
