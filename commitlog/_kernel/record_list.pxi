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
    values, keys, types, timestamp_ns, expect
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
    cdef cl_record_input *records
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
        self, Writer log, values, keys, types, timestamp_ns, expect, placing=None
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
        self.records = <cl_record_input *>malloc(self.count * sizeof(cl_record_input))
        if self.records == NULL and self.count:
            raise MemoryError
        for index in range(self.count):
            self.fill(log, index)
            self.records[index].type = 0 if type_items is None else type_of(type_items[index])
            self.records[index].timestamp_ns = stamp
            log.check_size(&self.records[index])
        self.placing = placing
        if expect is not None:
            self.begin_condition(log, expect)

    def __dealloc__(self):
        free(self.records)

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

    cdef int begin_condition(self, Writer log, object expect) except -1:
        """Make the list one claim, which is appended at a sequence or not at all."""
        cdef Py_ssize_t index
        begin_condition(&self.condition, expect)
        for index in range(self.count):
            self.bytes = end_of(self.bytes, &self.records[index])
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
        cdef Py_ssize_t end = self.done
        cdef uint64_t bytes = 0
        length[0] = 0
        while end < self.count:
            bytes = end_of(length[0], &self.records[end])
            if bytes > most and end > self.done and not self.is_conditional:
                break
            length[0] = bytes
            end += 1
        return end

    cdef int put_at(self, uint64_t position, Py_ssize_t end, object values_at) except -1:
        """Give the next records, up to `end`, the values that they have from a position on."""
        cdef Py_ssize_t index
        cdef bytes value
        cdef list positions = []
        for index in range(self.done, end):
            positions.append(position)
            position = end_of(position, &self.records[index])
        cdef list values = values_at(positions)
        if len(values) != len(positions):
            raise ValueError("each position needs a value")
        for index, value in enumerate(values, self.done):
            if value is None or PyBytes_GET_SIZE(value) != self.records[index].value_length:
                raise ValueError("the length of a value must not depend on its position")
            self.values[index] = value
            self.records[index].value = PyBytes_AS_STRING(value)
        return 0
