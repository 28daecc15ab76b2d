# Bulk appends of records and rows of arrays, and claims, which are written in place.

cdef enum:
    ROWS_AT_ONCE = 4096


@cython.no_gc_clear
cdef class Engine(Writer):
    """The compiled part of an open log: the kernel's handle and writer, and all ways to append."""

    cdef object append_all(
        self, object values, object keys, object types, object timestamp_ns, object sync,
        object expect, object headers
    ):
        """Append a list of records: see `LogMethods.append_many`."""
        return self.append_records(
            RecordList(self, values, keys, types, timestamp_ns, expect, headers=headers), sync
        )

    cpdef append_records(self, RecordList records, object sync):
        """Append a list, and wait for durability as `append_many` does; return the positions."""
        cdef bint durable = self.sync_default if sync is None else self.sync_of(sync)
        if records.count:
            self.check_durable(durable)
            self.append_rest(records, True)
            self.finish_append(records.end, durable)
        return records.positions

    def append_list(self, RecordList records):
        """Append the rest of a list, for a coroutine; return False if the rest must wait for a
        required tailer, or a conditional list for an open claim.
        """
        cdef bint whole = self.append_rest(records, False)
        self.finish_append(records.end, False)
        return whole

    cdef bint append_rest(self, RecordList records, bint waits) except -1:
        """Append the rest of a list; return False if some of it is dropped, or is held while the
        caller does not wait.
        """
        cdef int64_t *positions = records.places
        cdef Py_ssize_t done = records.done
        if records.placing is not None:
            append_placed(self, records, waits)
        elif done < records.count and records.is_conditional:
            records.done = self.append_whole(records, positions, waits)
        elif done < records.count:
            records.done += self.append_batches(
                &records.records[done], records.headers_from(done), records.count - done,
                positions + done, waits
            )
        for done in range(records.done, records.count):
            positions[done] = -1
        if records.done:
            records.end = end_of(
                <uint64_t>positions[records.done - 1], &records.records[records.done - 1]
            )
        return records.done == records.count

    cdef Py_ssize_t append_batches(
        self, const cl_record_input *records, const cl_headers *headers, Py_ssize_t count,
        int64_t *positions, bint waits
    ) except -1:
        """Return how many of them were appended; the rest is dropped, or is held while the caller
        does not wait. A record's timestamp below 0 is the clock's at its batch. `headers` may be
        NULL.
        """
        cdef size_t done = 0
        cdef int code
        if headers != NULL:
            return self.append_headed(records, headers, count, positions, waits)
        while True:
            code = cl_writer_append_records(&self.writer, records, count, &done, positions)
            if code == CL_OK or self.handle_refusal(code, &records[done], count - done, waits):
                return done

    cdef Py_ssize_t append_headed(
        self, const cl_record_input *records, const cl_headers *headers, Py_ssize_t count,
        int64_t *positions, bint waits
    ) except -1:
        """As `append_batches`, for records of which some have headers."""
        cdef uint64_t length = 0
        cdef int64_t now_ns
        cdef cl_claim claim
        cdef Py_ssize_t batch
        cdef Py_ssize_t done = 0
        cdef int code
        while done < count:
            batch = batch_of(
                &records[done], &headers[done], count - done,
                min(self.writer.largest, CL_FRAME_ADD_LIMIT), &length
            )
            now_ns = -1
            code = cl_batch_claim(&self.writer, <uint32_t>length, &now_ns, &claim)
            if code == CL_OK:
                code = cl_batch_append(
                    &self.writer, &claim, &records[done], &headers[done], batch, now_ns,
                    positions + done
                )
            if code == CL_OK:
                done += batch
            elif code != CL_E_ROLLED_BACK and self.handle_refusal(
                code, &records[done], count - done, waits
            ):
                break
        return done

    cdef Py_ssize_t append_whole(
        self, RecordList records, int64_t *positions, bint waits
    ) except -1:
        """Append a list as one claim, on its condition. 0: it is dropped, or held while the caller
        does not wait.
        """
        cdef int code
        while True:
            code = cl_append_records_expected(
                &self.writer, records.records, records.headers_from(0), records.count,
                records.bytes, &records.condition, positions
            )
            if code == CL_OK:
                return records.count
            if is_refused(self, code, &records.condition, records.records, records.count, waits):
                return 0

    def append_marked(self, RecordList records not None, uint64_t producer, uint64_t number):
        """Append the only record of a list, with the mark of its producer, without `sync`; return
        its position, or -1 if it is dropped.
        """
        cdef cl_mark mark
        cdef cl_headers headers
        cdef uint64_t position = 0
        cdef int code
        if records.count != 1:
            raise ValueError("a mark is of one record")
        mark.producer = producer
        mark.number = number
        headers.length = 0
        if records.encoded != NULL:
            headers = records.encoded[0]
        while True:
            code = cl_append_marked(&self.writer, records.records, &headers, &mark, &position)
            if code == CL_OK:
                break
            if self.handle_refusal(code, records.records, 1, True):
                return -1
        self.finish_append(end_of(position, records.records), False)
        return position

    cdef uint64_t append_named(
        self, object value, object key, object type, object timestamp_ns, object headers,
        bint durable
    ) except 0:
        """Append one record with headers; return its position, or NOT_APPENDED."""
        cdef bytes encoded = encode_headers(headers)
        cdef bytes value_bytes = (
            value if PyBytes_CheckExact(value) else as_bytes(value, "the value")
        )
        cdef bytes key_bytes = None if key is None else as_bytes(key, "the key")
        cdef cl_record_input record
        cdef cl_headers native
        cdef uint64_t position = 0
        cdef int code
        native.bytes = <const uint8_t *>PyBytes_AS_STRING(encoded)
        native.length = <uint32_t>PyBytes_GET_SIZE(encoded)
        self.fill_record(
            &record, PyBytes_GET_SIZE(value_bytes), key_bytes, type, timestamp_ns,
            cl_headers_size(&native)
        )
        record.value = PyBytes_AS_STRING(value_bytes)
        self.check_durable(durable)
        while True:
            code = cl_append_marked(&self.writer, &record, &native, NULL, &position)
            if code == CL_OK:
                break
            if self.handle_refusal(code, &record, 1, True):
                return NOT_APPENDED
        self.finish_append(end_of(position, &record), durable)
        return position

    cdef int fill_record(
        self, cl_record_input *record, Py_ssize_t size, bytes key, object type,
        object timestamp_ns, uint64_t before
    ) except -1:
        """Fill in all of a record but where its value is, and refuse one that does not fit with
        `before` bytes of headers.
        """
        record.value = NULL
        record.key = NULL
        record.key_length = CL_KEYLEN_NONE
        record.type = type_of(type)
        if size > CL_FRAME_LIMIT or (key is not None and PyBytes_GET_SIZE(key) > CL_FRAME_LIMIT):
            raise self.too_large(size if size > CL_FRAME_LIMIT else PyBytes_GET_SIZE(key))
        record.value_length = <uint32_t>size
        if key is not None:
            record.key = PyBytes_AS_STRING(key)
            record.key_length = <uint32_t>PyBytes_GET_SIZE(key)
        record.timestamp_ns = timestamp_of(timestamp_ns)
        return self.check_size(record, before)

    cdef object append_rows(self, object rows, object timestamp_ns, object sync):
        """Append each row of an array: see `LogMethods.append_array`."""
        cdef bint durable = self.sync_default if sync is None else self.sync_of(sync)
        cdef cl_rows native
        cdef size_t done = 0
        cdef int code
        if not isinstance(rows, numpy.ndarray):
            raise RecordTypeError(
                f"rows must be a numpy array, not {type(rows).__name__}: use append_many for lists"
            )
        if rows.dtype.hasobject or not (
            rows.ndim == 2 or (rows.ndim == 1 and rows.dtype.kind == "V")
        ):
            raise RecordTypeError("rows must be two-dimensional, or one-dimensional and "
                                  "structured, without objects; "
                                  f"not {rows.ndim}-dimensional {rows.dtype}")
        rows = numpy.ascontiguousarray(rows)
        cdef Py_ssize_t count = rows.shape[0]
        row_bytes = rows.dtype.itemsize * (rows.shape[1] if rows.ndim == 2 else 1)
        positions = numpy.empty(count, dtype=numpy.int64)
        if count == 0:
            return positions
        if row_bytes + CL_FRAME_HEADER > self.writer.largest and self.takes():
            raise self.too_large(row_bytes + CL_FRAME_HEADER)
        self.check_durable(durable)
        cdef int64_t[::1] out = positions
        cdef const uint8_t[::1] data
        native.data = NULL
        if row_bytes:
            data = rows.reshape(-1).view(numpy.uint8)
            native.data = &data[0]
        native.count = count
        native.stride = row_bytes
        native.length = row_bytes
        native.timestamp_ns = timestamp_of(timestamp_ns)
        while True:
            code = cl_writer_append_rows(&self.writer, &native, &done, &out[0])
            if code == CL_OK:
                break
            if self.handle_refusal(code, NULL, count - done, True):
                out[<Py_ssize_t>done:] = -1
                break
        if done:
            self.finish_append(
                <uint64_t>out[done - 1] + cl_frame_aligned(CL_FRAME_HEADER + native.length),
                durable
            )
        return positions

    def append_columns(self, parts, *, timestamp_ns=None, sync=None):
        """Append the rows of columns, part after part; all are checked before the first record is
        claimed.

        Parameters
        ----------
        parts : list of RowColumns
        timestamp_ns, sync
            As for `append_array`.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one a row; -1 of a row that was dropped.
        """
        cdef bint durable = self.sync_default if sync is None else self.sync_of(sync)
        cdef int64_t stamp = -1 if timestamp_ns is None else timestamp_of(timestamp_ns)
        cdef Py_ssize_t done = 0
        cdef uint64_t end = 0
        cdef RowColumns part
        positions = numpy.empty(sum([part.count for part in parts]), dtype=numpy.int64)
        if len(positions) == 0:
            return positions
        self.check_durable(durable)
        cdef int64_t[::1] out = positions
        cdef cl_record_input *records = <cl_record_input *>malloc(
            ROWS_AT_ONCE * sizeof(cl_record_input)
        )
        if records == NULL:
            raise MemoryError
        try:
            for part in parts:
                self.take_rows(part, records, stamp, NULL, &end)
            for part in parts:
                if part.count:
                    self.take_rows(part, records, stamp, &out[done], &end)
                    done += part.count
        finally:
            free(records)
        self.finish_append(end, durable)
        return positions

    cdef int take_rows(
        self, RowColumns part, cl_record_input *records, int64_t stamp, int64_t *positions,
        uint64_t *end
    ) except -1:
        """Check a part's rows, or with `positions` append them; `end` is where the last one ends
        that was not dropped.
        """
        cdef Py_ssize_t first, index
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t taken = 0
        cdef const cl_headers *headers = NULL
        if stamp >= 0 and part.has_timestamps:
            raise RecordTypeError(
                "timestamp_ns= and a column of timestamps contradict each other: leave one of "
                "them out"
            )
        for first in range(0, part.count, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, part.count - first)
            part.fill(first, count, records)
            headers = part.headers_from(first)
            for index in range(count):
                self.check_size(
                    &records[index], 0 if headers == NULL else cl_headers_size(&headers[index])
                )
                if stamp >= 0:
                    records[index].timestamp_ns = stamp
            if positions == NULL:
                continue
            taken = self.append_batches(records, headers, count, positions + first, True)
            if taken:
                end[0] = end_of(<uint64_t>positions[first + taken - 1], &records[taken - 1])
            for index in range(taken, count):
                positions[first + index] = -1
        return 0

    cdef Claim new_claim(
        self, object owner, object size, object key, object type, object timestamp_ns, object sync
    ):
        """Reserve room for a value: see `LogMethods.claim`. The claim keeps its `owner` alive."""
        cdef Claim claim
        cdef cl_record_input record
        cdef int code
        cdef bytes key_bytes = None if key is None else as_bytes(key, "the key")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise RecordTypeError(f"size must be a number of bytes (an int), not {size!r}")
        if size > CL_FRAME_LIMIT:
            raise self.too_large(size)
        self.fill_record(&record, size, key_bytes, type, timestamp_ns, 0)
        record.key = NULL
        claim = Claim.__new__(Claim)
        claim.log = self
        claim.owner = owner
        claim.key = key_bytes
        claim.sync = self.sync_default if sync is None else self.sync_of(sync)
        self.check_durable(claim.sync)
        while True:
            code = cl_writer_claim(&self.writer, self.writer.largest, &record, &claim.native)
            if code == CL_OK:
                break
            if self.handle_refusal(code, &record, 1, True):
                raise TailerLagError("a required tailer is too far behind, and a claim cannot be "
                                     "dropped: claim again later, or append",
                                     path=self.path)
        cl_claim_hold(claim.native.segment)
        claim.record = record
        claim.open = True
        claim.start = claim.native.segment.base + claim.native.offset
        self.claims[claim.start] = _get_ident()
        self.finish_append(0, False)
        return claim
