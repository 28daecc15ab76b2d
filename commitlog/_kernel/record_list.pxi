# A list of records to append. The whole list is checked before its first record is appended.


cdef object _each(values, str what):
    try:
        return iter(values)
    except TypeError:
        raise RecordTypeError(
            f"{what} must be a sequence with one item per record, not {type(values).__name__}"
        ) from None


cdef class RecordList:
    """Hold records in the form of the kernel, with the bytes that they point into, and how many of
    them were appended so far.

    Parameters
    ----------
    log : Writer
        The writer that appends them.
    values, keys, types, timestamp_ns, expect, headers
        As for `append_many`.
    placing : callable, optional
        Makes values that depend on their positions; `values` has as many bytes for each. It takes
        the indexes of the first record of a batch and of the one behind it, and returns a callable
        that takes the positions of these records and returns their values. It is called again for
        each attempt at another place.

    Attributes
    ----------
    count, done : int
        The number of records; how many of them, from the first on, were appended.
    positions : numpy.ndarray
        int64, one a record; -1 for a record whose append was tried and failed.
    """
    cdef list values
    cdef list keys
    cdef list headers
    cdef cl_record_input *records
    cdef cl_headers *encoded  # of each record; NULL: none has headers
    cdef uint64_t end  # of the last appended record
    cdef uint64_t bytes  # of a conditional list, with headers and padding
    cdef bint is_conditional
    cdef cl_condition condition
    cdef object placing
    cdef int64_t *places  # the items of `positions`
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t done
    cdef readonly object positions

    def __cinit__(
        self, Writer log, values, keys, types, timestamp_ns, expect, placing=None, headers=None
    ):
        cdef int64_t stamp = timestamp_of(timestamp_ns)
        cdef int64_t[::1] places
        cdef Py_ssize_t index
        self.values = [
            value if PyBytes_CheckExact(value) else as_bytes(value, "a value")
            for value in _each(values, "values")
        ]
        self.count = len(self.values)
        self.positions = numpy.empty(self.count, dtype=numpy.int64)
        if self.count:
            places = self.positions
            self.places = &places[0]
        if keys is not None:
            self.keys = [
                None if key is None else as_bytes(key, "a key") for key in _each(keys, "keys")
            ]
            if len(self.keys) != self.count:
                raise RecordTypeError(
                    f"keys must have one item for each value: {len(self.keys)} for {self.count}"
                )
        cdef list type_items = None if types is None else list(_each(types, "types"))
        if type_items is not None and len(type_items) != self.count:
            raise RecordTypeError(
                f"types must have one item for each value: {len(type_items)} for {self.count}"
            )
        if headers is not None:
            self.headers = [encode_headers(each) for each in _each(headers, "headers")]
            if len(self.headers) != self.count:
                raise RecordTypeError(
                    f"headers must have one item for each value: {len(self.headers)} for "
                    f"{self.count}"
                )
            self.encoded = headers_in(self.headers)
        self.records = <cl_record_input *>malloc(self.count * sizeof(cl_record_input))
        if self.records == NULL and self.count:
            raise MemoryError
        for index in range(self.count):
            self.fill(log, index)
            self.records[index].type = 0 if type_items is None else type_of(type_items[index])
            self.records[index].timestamp_ns = stamp
            log.check_size(&self.records[index], self.before(index))
        self.placing = placing
        if expect is not None:
            self.begin_condition(log, expect)

    def __dealloc__(self):
        free(self.records)
        free(self.encoded)

    cdef int fill(self, Writer log, Py_ssize_t index) except -1:
        cdef cl_record_input *record = &self.records[index]
        cdef bytes value = self.values[index]
        cdef bytes key = None if self.keys is None else self.keys[index]
        if PyBytes_GET_SIZE(value) > CL_FRAME_LIMIT:
            raise log.too_large(PyBytes_GET_SIZE(value))
        record.value = PyBytes_AS_STRING(value)
        record.value_length = <uint32_t>PyBytes_GET_SIZE(value)
        record.key = NULL
        record.key_length = CL_KEYLEN_NONE
        if key is not None:
            if PyBytes_GET_SIZE(key) > CL_FRAME_LIMIT:
                raise log.too_large(PyBytes_GET_SIZE(key))
            record.key = PyBytes_AS_STRING(key)
            record.key_length = <uint32_t>PyBytes_GET_SIZE(key)
        return 0

    cdef uint64_t before(self, Py_ssize_t index) noexcept:
        """How many bytes the headers of a record take, in front of it."""
        return 0 if self.encoded == NULL else cl_headers_size(&self.encoded[index])

    cdef uint64_t behind(self, uint64_t position, Py_ssize_t index) noexcept:
        """Where a record ends that begins, with its headers, at a position."""
        return end_with_headers(position, &self.records[index], self.headers_from(index))

    cdef const cl_headers *headers_from(self, Py_ssize_t index) noexcept:
        return NULL if self.encoded == NULL else self.encoded + index

    cdef int begin_condition(self, Writer log, object expect) except -1:
        """Make the list one claim, which is appended at a sequence or not at all."""
        cdef Py_ssize_t index
        begin_condition(&self.condition, expect)
        for index in range(self.count):
            self.bytes = self.behind(self.bytes, index)
        self.is_conditional = True
        if self.bytes > log.writer.largest and log.native == NULL and log.takes():
            raise RecordTooLargeError(
                f"with expect= a list is appended as a whole, and {self.bytes} bytes with headers "
                f"do not fit the log's largest frame of {log.writer.largest} bytes: append a "
                "shorter list, or create the log with larger segments",
                path=log.path, size=self.bytes, limit=log.writer.largest)
        return 0

    cdef Py_ssize_t batch_end(self, uint64_t most, uint64_t *length) noexcept:
        """Return the end of the next batch, and how many bytes its frames take: at most `most` if
        it has several records. A conditional list is one batch.
        """
        return self.done + batch_of(
            &self.records[self.done], self.headers_from(self.done), self.count - self.done,
            <uint64_t>-1 if self.is_conditional else most, length
        )

    cdef int put_at(self, uint64_t position, Py_ssize_t end, object values_at) except -1:
        """Give the next records, up to `end`, the values that they have from a position on."""
        cdef Py_ssize_t index
        cdef bytes value
        cdef list positions = []
        for index in range(self.done, end):
            positions.append(position + self.before(index))
            position = self.behind(position, index)
        cdef list values = values_at(positions)
        if len(values) != len(positions):
            raise ValueError("each position needs a value")
        for index, value in enumerate(values, self.done):
            if value is None or PyBytes_GET_SIZE(value) != self.records[index].value_length:
                raise ValueError("the length of a value must not depend on its position")
            self.values[index] = value
            self.records[index].value = PyBytes_AS_STRING(value)
        return 0
