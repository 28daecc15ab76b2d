# Frames of a segment that is staged outside of its log: laid out in memory piece by piece, for a
# file that is written with `pwrite`.


cdef class Frames:
    """The frames of one segment, of which a piece at a time is in memory.

    Parameters
    ----------
    segment_id : int
        The seed of every CRC.
    size : int
        Bytes of the segment.
    room : int
        Bytes of the piece; it grows for a larger frame.
    """
    cdef cl_segment segment
    cdef cl_tally counts
    cdef uint8_t *memory
    cdef uint64_t room
    cdef uint64_t begins  # the offset of the piece's first byte
    cdef uint64_t ends    # where the next frame goes
    cdef Py_ssize_t exports

    def __cinit__(self, uint64_t segment_id, uint64_t size, uint64_t room):
        if not CL_SEGMENT_SMALLEST <= size <= CL_SEGMENT_LARGEST or size % CL_SEGMENT_HEADER:
            raise ValueError(
                "the segment size must be a multiple of the page size, 64 KiB to 1 GiB"
            )
        memset(&self.segment, 0, sizeof(self.segment))
        memset(&self.counts, 0, sizeof(self.counts))
        self.segment.id = segment_id
        self.segment.seed = cl_crc32c_seed(segment_id)
        self.segment.size = size
        self.begins = self.ends = self.counts.end = CL_SEGMENT_HEADER
        self.make_room(room)

    def __dealloc__(self):
        free(self.memory)

    cdef int make_room(self, uint64_t room) except -1:
        free(self.memory)
        self.memory = <uint8_t *>malloc(room)
        if self.memory == NULL:
            raise MemoryError(f"staging needs {room} bytes")
        self.room = room
        return 0

    @property
    def start(self):
        """The offset of the first byte that `piece` gives."""
        return self.begins

    @property
    def offset(self):
        """Where the next frame goes."""
        return self.ends

    @property
    def records(self):
        return self.counts.records

    @property
    def tally(self):
        """(end, records, first_timestamp_ns, last_timestamp_ns, largest_timestamp_ns), as a seal
        has them.
        """
        return (self.counts.end, self.counts.records, self.counts.first_timestamp_ns,
                self.counts.last_timestamp_ns,
                self.counts.largest_timestamp_ns)

    def lay(self, const uint8_t[::1] values, const int64_t[::1] value_offsets,
            const uint8_t[::1] keys, const int64_t[::1] key_offsets,
            const uint8_t[::1] keyed, const uint32_t[::1] types, const int64_t[::1] timestamps_ns,
            int64_t timestamp_ns, Py_ssize_t first, list headers=None):
        """Lay rows from `first` on, as far as the piece and the segment have room: (the first row
        that was not laid, whether it needs another segment). Where it does not, the piece has to be
        taken first.

        Parameters
        ----------
        values, keys : memoryview of bytes
            Back to back.
        value_offsets, key_offsets : memoryview of int64
            One more than there are rows; keys None: none is keyed.
        keyed : memoryview of bytes
            1 for each row that has a key.
        types : memoryview of uint32 or None
        timestamps_ns : memoryview of int64 or None
            None: `timestamp_ns` for all.
        headers : list of bytes, optional
            Those of each row, encoded.

        Raises
        ------
        RecordTooLargeError
            A row fits no segment of this size.
        ValueError
            The arrays do not belong together.
        """
        cdef cl_stage_rows rows
        cdef cl_headers *encoded
        cdef size_t done = first
        cdef uint64_t stop
        cdef int code
        cdef uint32_t limit = cl_frame_largest(self.segment.size)
        memset(&rows, 0, sizeof(rows))
        if value_offsets.shape[0] < 1 or first < 0 or self.exports:
            raise ValueError(
                "there must be one more offset than rows, and the last piece must be released "
                "before the next is staged"
            )
        rows.count = value_offsets.shape[0] - 1
        if done > rows.count:
            raise ValueError("there is no such row")
        rows.values = &values[0] if values is not None and values.shape[0] else NULL
        rows.values_size = 0 if values is None else values.shape[0]
        rows.value_offsets = &value_offsets[0]
        if key_offsets is not None:
            if (keyed is None or <size_t>key_offsets.shape[0] != rows.count + 1
                    or <size_t>keyed.shape[0] != rows.count):
                raise ValueError("there must be as many keys as rows")
            rows.keys = &keys[0] if keys is not None and keys.shape[0] else NULL
            rows.keys_size = 0 if keys is None else keys.shape[0]
            rows.key_offsets = &key_offsets[0]
            rows.keyed = &keyed[0] if rows.count else NULL
        if types is not None:
            if <size_t>types.shape[0] != rows.count:
                raise ValueError("there must be as many types as rows")
            rows.types = &types[0] if rows.count else NULL
        if timestamps_ns is not None:
            if <size_t>timestamps_ns.shape[0] != rows.count:
                raise ValueError("there must be as many timestamps as rows")
            rows.timestamps_ns = &timestamps_ns[0] if rows.count else NULL
        rows.timestamp_ns = timestamp_ns
        if headers is not None and <size_t>len(headers) != rows.count:
            raise ValueError("there must be as many headers as rows")
        encoded = NULL if headers is None else headers_in(headers)
        rows.headers = encoded
        stop = min(self.segment.size, self.begins + self.room)
        self.segment.bytes = <uint8_t *>(<uintptr_t>self.memory - self.begins)
        with nogil:
            code = cl_stage_lay(&self.segment, &self.ends, stop, &rows, &done, &self.counts)
        free(encoded)
        if code == CL_E_TOO_LARGE:
            size = value_offsets[done + 1] - value_offsets[done]
            raise RecordTooLargeError(
                f"row {done} of the batch has a value of {size} bytes, but a record with its key, "
                "its headers and the frame's must fit in an eighth of a "
                f"segment, {limit} bytes: split it, or write to a log with larger segments",
                size=size, limit=limit)
        if code == CL_E_DAMAGE:
            raise ValueError(f"the offsets of row {done} are outside the column's bytes")
        if code == CL_E_FULL and stop < self.segment.size and self.ends == self.begins:
            # One frame alone is larger than the piece.
            self.make_room(min(limit, self.room * 8))
            return self.lay(
                values, value_offsets, keys, key_offsets, keyed, types, timestamps_ns, timestamp_ns,
                done, headers
            )
        return done, code == CL_E_FULL and stop == self.segment.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, <Py_ssize_t>(self.ends - self.begins), 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

    def piece(self):
        """The frames that were laid since the piece before, as a read-only memoryview, to be
        released before more are laid.
        """
        return memoryview(self)

    def advance(self):
        """The piece was written: the next one begins where it ended."""
        self.begins = self.ends

    def closing(self):
        """The SKIP that reaches from the last frame to the segment's end, as the bytes of its cell;
        empty where there is no room left.
        """
        cdef uint64_t cell
        if self.ends >= self.segment.size:
            return b""
        cell = cl_skip_cell(&self.segment, <uint32_t>self.ends, 0)
        return (<char *>&cell)[:sizeof(cell)]
