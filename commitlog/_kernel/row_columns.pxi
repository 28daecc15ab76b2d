# Records to append, as columns, without an object for each record. Not declared in engine.pxd: its
# memory views would be compiled into every module that imports it.


cdef class RowColumns:
    """Hold columns of equal length, one row a record.

    Parameters
    ----------
    data : numpy.ndarray of uint8
    offsets : numpy.ndarray of int64, shape (n + 1,)
        Value i is ``data[offsets[i]:offsets[i + 1]]``.
    keys : tuple of numpy.ndarray, optional
        Data and offsets of the keys, and for each row whether it has one (uint8).
    types : numpy.ndarray of uint32, optional
    timestamps_ns : numpy.ndarray of int64, optional
        Below 0: the current time.
    headers : list of mapping or None, optional
    """
    cdef readonly Py_ssize_t count
    cdef const uint8_t[::1] data
    cdef const int64_t[::1] offsets
    cdef const uint8_t[::1] keys
    cdef const int64_t[::1] key_offsets
    cdef const uint8_t[::1] keyed
    cdef const uint32_t[::1] types
    cdef const int64_t[::1] timestamps_ns

    cdef bint has_keys
    cdef bint has_types
    cdef bint has_timestamps
    cdef list headers
    cdef cl_headers *encoded  # of each row; NULL: none has headers

    def __init__(
        self, data, offsets, *, keys=None, types=None, timestamps_ns=None, headers=None
    ):
        self.data = data
        self.offsets = offsets
        self.count = max(0, self.offsets.shape[0] - 1)
        self.has_keys = keys is not None
        self.has_types = types is not None
        self.has_timestamps = timestamps_ns is not None
        if keys is not None:
            self.keys, self.key_offsets, self.keyed = keys
            if self.key_offsets.shape[0] != self.count + 1 or self.keyed.shape[0] != self.count:
                raise RecordTypeError("keys must have one row for each value")
        if types is not None:
            self.types = types
            if self.types.shape[0] != self.count:
                raise RecordTypeError("types must have one row for each value")
        if timestamps_ns is not None:
            self.timestamps_ns = timestamps_ns
            if self.timestamps_ns.shape[0] != self.count:
                raise RecordTypeError("timestamps must have one row for each value")
        if headers is not None:
            self.headers = [encode_headers(each) for each in headers]
            if len(self.headers) != self.count:
                raise RecordTypeError("headers must have one row for each value")
            self.encoded = headers_in(self.headers)

    def __dealloc__(self):
        free(self.encoded)

    cdef const cl_headers *headers_from(self, Py_ssize_t row) noexcept:
        return NULL if self.encoded == NULL else self.encoded + row

    cdef int fill(self, Py_ssize_t first, Py_ssize_t count, cl_record_input *records) except -1:
        """Convert rows from `first` on to kernel records, and check their offsets, which are
        untrusted input.
        """
        cdef Py_ssize_t index, row
        cdef const uint8_t *values = &self.data[0] if self.data.shape[0] else NULL
        cdef const uint8_t *keys = &self.keys[0] if self.has_keys and self.keys.shape[0] else NULL
        for index in range(count):
            row = first + index
            records[index].value = values + self.offsets[row] if values != NULL else NULL
            records[index].value_length = length_of(
                self.offsets[row], self.offsets[row + 1], self.data.shape[0], row
            )
            records[index].key = NULL
            records[index].key_length = CL_KEYLEN_NONE
            if self.has_keys and self.keyed[row]:
                records[index].key = keys + self.key_offsets[row] if keys != NULL else NULL
                records[index].key_length = length_of(
                    self.key_offsets[row], self.key_offsets[row + 1], self.keys.shape[0], row
                )
            records[index].type = self.types[row] if self.has_types else 0
            records[index].timestamp_ns = self.timestamps_ns[row] if self.has_timestamps else -1
        return 0


cdef inline uint32_t length_of(
    int64_t start, int64_t stop, Py_ssize_t size, Py_ssize_t row
) except? 0xFFFFFFFF:
    if not 0 <= start <= stop <= size:
        raise RecordTypeError(
            f"the offsets of row {row}, {start} to {stop}, are outside the column's {size} "
            "bytes: the data is damaged"
        )
    if stop - start > CL_FRAME_LIMIT:
        raise RecordTooLargeError(f"row {row} has {stop - start} bytes, and no frame is larger "
                                  f"than {CL_FRAME_LIMIT}; split it",
                                  size=stop - start, limit=CL_FRAME_LIMIT)
    return <uint32_t>(stop - start)
