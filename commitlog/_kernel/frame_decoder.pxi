# Decodes a part of a segment file in memory into buffers in Arrow's layout.

cdef size_t ROOM_LARGEST = 0x7FFFFFFF  # the largest 32-bit offset


cdef class RowBuffers:
    """Hold the output buffers for rows: writable; None for a column that the caller does not want.

    The first entry of `value_ends` and `key_ends` is 0, as in Arrow.

    Parameters
    ----------
    most : int
        The number of rows for which each buffer has room.
    """
    cdef cl_rows_out rows
    cdef object held
    cdef readonly size_t most

    def __init__(self, size_t most, *, positions=None, timestamps_us=None, types=None,
                 value_ends=None, values=None, key_ends=None,
                 keys=None, key_bits=None):
        if (value_ends is None) != (values is None) or len(
            {key_ends is None, keys is None, key_bits is None}
        ) != 1:
            raise ValueError(
                "value_ends and values, and key_ends, keys and key_bits, must be given together"
            )
        self.most = most
        self.rows.most = most
        self.held = []
        self.rows.positions = <int64_t *>self.take(positions, most * sizeof(int64_t))
        self.rows.timestamps_us = <int64_t *>self.take(timestamps_us, most * sizeof(int64_t))
        self.rows.types = <int64_t *>self.take(types, most * sizeof(int64_t))
        self.rows.value_ends = self.take_ends(value_ends)
        self.rows.key_ends = self.take_ends(key_ends)
        self.rows.values = self.take(values, 0)
        self.rows.keys = self.take(keys, 0)
        self.rows.key_bits = self.take(key_bits, (most + 7) // 8)
        self.rows.values_room = 0 if values is None else min(
            <size_t>len(memoryview(values).cast("B")), ROOM_LARGEST
        )
        self.rows.keys_room = 0 if keys is None else min(
            <size_t>len(memoryview(keys).cast("B")), ROOM_LARGEST
        )

    cdef uint8_t *take(self, object buffer, size_t least) except? NULL:
        cdef uint8_t[::1] view
        if buffer is None:
            return NULL
        view = memoryview(buffer).cast("B")
        if <size_t>view.shape[0] < least or view.shape[0] == 0:
            raise ValueError(f"a column of {least} bytes does not fit into {view.shape[0]}")
        self.held.append(view)
        return &view[0]

    cdef int32_t *take_ends(self, object buffer) except? NULL:
        cdef int32_t *ends = <int32_t *>self.take(buffer, (self.most + 1) * sizeof(int32_t))
        if ends != NULL:
            ends[0] = 0
            ends += 1
        return ends

    @property
    def count(self):
        """Return the number of decoded rows."""
        return self.rows.count

    @property
    def passed(self):
        """Return the number of records that were skipped, because they are before the first wanted
        one.
        """
        return self.rows.passed

    @property
    def values_size(self):
        return self.rows.values_size

    @property
    def keys_size(self):
        return self.rows.keys_size


cdef class FrameDecoder:
    """Decode the frames of one segment, a part of its file at a time.

    Parameters
    ----------
    segment_id, base, size : int
        From its header page, which the caller has checked.
    """
    cdef cl_segment segment

    def __init__(self, uint64_t segment_id, uint64_t base, uint64_t size):
        if (not CL_SEGMENT_SMALLEST <= size <= CL_SEGMENT_LARGEST or size % CL_FRAME_ALIGN
                or base % size):
            raise ValueError("the segment size or the base position is invalid")
        memset(&self.segment, 0, sizeof(self.segment))
        self.segment.number = base // size
        self.segment.base = base
        self.segment.size = size
        self.segment.id = segment_id
        self.segment.seed = cl_crc32c_seed(segment_id)

    cdef cl_frame_cursor cursor(
        self, const uint8_t[::1] data, uint64_t start, uint64_t offset, uint64_t limit
    ) except *:
        """Return a cursor over the part of the file that begins at offset `start`."""
        cdef const uint8_t *first = &data[0] if data.shape[0] else NULL
        cdef uint64_t stop = start + (<uint64_t>data.shape[0] & ~<uint64_t>(CL_FRAME_ALIGN - 1))
        if ((start | offset | <size_t>first) % CL_FRAME_ALIGN or offset < start or offset > stop
            or offset < CL_SEGMENT_HEADER
                or stop > self.segment.size):
            raise ValueError(
                "the data is not aligned, is outside this segment, or does not contain the offset"
            )
        cdef cl_frame_cursor cursor = cl_frame_cursor_at(
            &self.segment, first - start, offset, min(limit, stop)
        )
        cursor.end = stop
        return cursor

    def decode(
        self, const uint8_t[::1] data, uint64_t start, uint64_t offset, uint64_t first,
        uint64_t limit, RowBuffers out not None
    ):
        """Decode frames from `offset` on, until the buffers are full.

        Parameters
        ----------
        data : buffer
            The bytes of the file from offset `start` on.
        offset : int
            The start of a frame, inside the data or at its end.
        first : int
            Records below this offset are counted and not decoded.
        limit : int
            The offset at which to stop.

        Returns
        -------
        tuple of (int, int, int)
            A code, the offset at which the decoder stopped, and for `ABSENT` the length of the
            frame there. `ROLL`: the limit. `FULL`: the next row has no room. `ABSENT`: the data
            ends inside a frame. `END`: a zero cell. `BUSY`: a claim. `DAMAGE`: a bad frame.
        """
        cdef cl_frame_cursor cursor = self.cursor(data, start, offset, limit)
        cdef int code
        with nogil:
            code = cl_frames_decode(&cursor, first, min(limit, self.segment.size), &out.rows)
        return code, cursor.offset, cursor.step

    def headers(self, const uint8_t[::1] data, uint64_t start, const int64_t[::1] positions):
        """Return the headers of decoded records, a dict for each; None if they are damaged. The
        data must reach back from the first record by HEADERS_BACK, or to the first frame.
        """
        cdef cl_frame_cursor cursor
        cdef cl_headers headers
        cdef uint64_t offset
        cdef Py_ssize_t index
        cdef list found = []
        for index in range(positions.shape[0]):
            offset = <uint64_t>positions[index] - self.segment.base
            cursor = self.cursor(data, start, offset, self.segment.size)
            if offset - start < CL_HEADERS_BACK and start > CL_SEGMENT_HEADER:
                raise ValueError("the data does not reach far enough before the record")
            code = cl_headers_find(&self.segment, cursor.bytes, offset, &headers)
            found.append(decode_headers(&headers) if code == CL_OK else None)
        return found

    def resume(self, const uint8_t[::1] data, uint64_t start, uint64_t offset, uint64_t limit):
        """Return the offset of the next valid frame behind `offset`, or `limit`.

        The data must reach behind the limit by the size of the largest frame, or to the end of the
        segment.
        """
        cdef cl_frame_cursor cursor = self.cursor(data, start, offset, limit)
        cdef bint found
        cursor.offset += CL_FRAME_ALIGN
        with nogil:
            found = cl_frame_find(&cursor)
        return cursor.offset if found else limit
