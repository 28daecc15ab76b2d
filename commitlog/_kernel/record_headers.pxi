# The headers of records that a tailer has read.


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


def headers_of(segments, positions, *, bint skips_damage=False):
    """Return the headers of records that were read from some segments, a dict for each.

    Parameters
    ----------
    segments : sequence of Segment
        In the order of the records.
    positions : numpy.ndarray of int64
    skips_damage : bool
        Return None for damaged headers, instead of raising.
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
        try:
            found.append(headers_at(segment, <uint64_t>places[index] - segment.segment.base))
        except CorruptSegmentError:
            if not skips_damage:
                raise
            found.append(None)
    return found
