# What another machine gets: a copy of frames, and the CRC-32C of bytes.

# So many bytes take a few microseconds. A thread that releases the interpreter's lock for them may
# wait much longer until it has the lock again.
cdef enum:
    SHORT_BYTES = 16384


def crc32c(const uint8_t[::1] data not None):
    """Return the CRC-32C of some bytes."""
    cdef size_t length = data.shape[0]
    cdef const uint8_t *first = &data[0] if length else NULL
    cdef uint32_t crc
    if length <= SHORT_BYTES:
        return cl_crc32c(0, first, length)
    with nogil:
        crc = cl_crc32c(0, first, length)
    return crc


def copy_frames(Segment segment not None, uint64_t start, uint64_t stop):
    """Copy the frames of [start, stop) that are valid and whole; a first frame that ends behind
    `stop` is copied, too.

    Returns
    -------
    tuple of (bytes or memoryview, int, int)
        The frames, their CRC-32C, and a code: 0, or why the copy does not reach `stop`. `ABSENT`:
        the next frame ends behind it.
    """
    cdef cl_segment *held
    cdef bytes copy
    cdef uint8_t *first
    cdef uint64_t end
    cdef uint32_t crc
    cdef int code
    if start > stop or (start | stop) % CL_FRAME_ALIGN:
        raise ValueError("not a range of frames")
    segment.bytes_at(start, stop - start, CL_SEGMENT_HEADER)
    stop = cl_first_frame_end(segment.segment, start, stop)
    copy = PyBytes_FromStringAndSize(NULL, stop - start)
    first = <uint8_t *>PyBytes_AS_STRING(copy)
    if stop - start <= SHORT_BYTES:
        code = cl_segment_copy(segment.segment, start, stop, first, &end, &crc)
    else:
        held = segment.held()
        with nogil:
            code = cl_segment_copy(held, start, stop, first, &end, &crc)
            cl_segment_release(held)
    return copy if end == stop else memoryview(copy)[:end - start], crc, code
