# The headers of records that were read: see c/headers.h.


cdef dict headers_at(Segment segment, uint64_t offset):
    """Decode the headers of the record at an offset of a segment; empty if it has none."""
    cdef cl_headers found
    cdef const uint8_t *source
    cdef int code
    segment.check()
    source = source_at(segment, offset)
    code = cl_headers_find(segment.segment, source, offset, &found)
    position = segment.segment.base + offset
    if code == CL_E_ABSENT:
        raise ClosedError(
            "the headers of this record cannot be read any more: it was read before its commit, "
            "and the log failed or was closed since", path=segment.path, position=position)
    headers = None if code == CL_E_DAMAGE else decode_headers(&found)
    if headers is None:
        raise CorruptSegmentError(
            "the headers of this record are damaged, and the record is not: run `commitlog verify` "
            "on the log, and `commitlog repair` to read it without headers",
            path=segment.path, position=position)
    return headers


cdef const uint8_t *source_at(Segment segment, uint64_t offset):
    """Where the bytes of a segment are, from the record at an offset down: a record that is not
    committed is in the pool buffer. The interpreter's lock keeps the pool from taking that back.
    """
    cdef Finder finder = segment.finder
    cdef Core core
    if finder is None or segment.segment.bytes == segment.segment.map:
        return segment.segment.map
    core = finder.core
    if segment.segment.base + offset < cl_load(&core.cursors.cells.committed.value):
        return segment.segment.map
    return segment.segment.bytes


cdef dict decode_headers(const cl_headers *found):
    """Return the headers by name, in their order; None if they are malformed."""
    cdef const uint8_t *at = found.bytes
    cdef uint32_t left = found.length
    cdef uint32_t name_length, value_length
    cdef dict headers = {}
    while left > 0 and at[0] != 0:
        name_length = at[0]
        if left < CL_HEADER_FIXED + name_length:
            return None
        value_length = at[1] | at[2] << 8
        if left - CL_HEADER_FIXED - name_length < value_length:
            return None
        at += CL_HEADER_FIXED
        try:
            name = (<const char *>at)[:name_length].decode("utf-8")
        except UnicodeDecodeError:
            return None
        if name in headers or len(headers) == CL_HEADERS_MOST:
            return None
        at += name_length
        headers[name] = PyBytes_FromStringAndSize(<const char *>at, value_length)
        at += value_length
        left -= CL_HEADER_FIXED + name_length + value_length
    while left > 0 and at[0] == 0:
        at += 1
        left -= 1
    return headers if left == 0 else None


def headers_of(segments, positions):
    """Return the headers of records that were read from some segments, a dict for each.

    Parameters
    ----------
    segments : sequence of Segment
        In the order of the records.
    positions : numpy.ndarray of int64
    """
    cdef const int64_t[::1] places = positions
    cdef Segment segment = None
    cdef Py_ssize_t index
    cdef list found = []
    following = iter(segments)
    for index in range(places.shape[0]):
        while (segment is None or places[index] < <int64_t>segment.segment.base
                or places[index] >= <int64_t>(segment.segment.base + segment.segment.size)):
            segment = next(following)
        found.append(headers_at(segment, <uint64_t>places[index] - segment.segment.base))
    return found
