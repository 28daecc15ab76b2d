# The methods of `CommitLog` that are one C call each.

cdef object _NO_TYPE = 0
cdef object _is_finalizing = sys.is_finalizing


cdef inline bint value_alone(
    object value, object key, object type, object timestamp_ns, object sync
):
    """Whether an append has bytes and no other argument, as most have. 0 is compared by identity:
    the interpreter has only one.
    """
    return (sync is None and key is None and type is _NO_TYPE and timestamp_ns is None
            and PyBytes_CheckExact(value))


@cython.no_gc_clear  # methods called while the collector breaks a cycle find the engine
cdef class LogMethods:
    """The compiled base of `CommitLog`. It has an engine and forwards to it.

    Parameters
    ----------
    parts : LogParts
        The parts of the open log, the engine among them.
    """

    def __cinit__(self, parts=None):
        engine = getattr(parts, "engine", None)
        if not isinstance(engine, Engine):
            raise TypeError("a log cannot be constructed: call commitlog.open")
        self.engine = <Engine>engine
        self.parts = parts

    def __del__(self):
        # None: `parts` was refused. At exit the registry has closed what it can, and the modules
        # that `dropped_by` needs may be cleared already.
        if self.parts is not None and not self.parts.closed and not _is_finalizing():
            self.parts.dropped_by(self)

    @property
    def _parts(self):
        return self.parts

    # --- appending --------------------------------------------------------------------------------

    def append(
        self, value, *, key=None, type=0, timestamp_ns=None, sync=None, expect=None, producer=None,
        producer_sequence=None, headers=None
    ):
        """Append one record.

        Parameters
        ----------
        value : bytes-like
            The record; may be empty.
        key : bytes-like, optional
            An empty key differs from no key. Compaction treats an empty value with a key as a
            tombstone.
        type : int
            From 0 to 4294967295.
        timestamp_ns : int, optional
            Nanoseconds since 1970; the clock's time by default.
        sync : bool, optional
            Wait until the record is durable; by default the log's ``flush=`` decides. If False, a
            power cut can lose the record; with a pool of anonymous buffers a kill of this process
            can lose it, too, until it is committed.
        expect : int, optional
            Append only if the record gets this sequence. Any number of threads and processes may
            compete for a sequence; one of them succeeds. The call waits for open claims below the
            end of the log.
        producer : str, optional
            The name of a producer, which numbers its records. If the number was appended before,
            the call returns that record's position and appends nothing. One handle at a time may
            use a name.
        producer_sequence : int, optional
            The number of this record, at least 0; needs `producer`.
        headers : mapping of str to bytes-like, optional
            Small named bytes beside the value, at most 64 and together at most 64 KiB; names have 1
            to 255 bytes in UTF-8. They are not encrypted, also in a sealed topic.

        Returns
        -------
        int
            The record's position; -1 if it was dropped: a required tailer is too far behind, and
            the log has ``on_lag="drop"``.

        Raises
        ------
        RecordTypeError, RecordTooLargeError, InvalidOptionError
            Nothing was appended.
        ConflictError
            The log ends at another sequence than `expect`. Nothing was appended.
        InUseError, ProducerSequenceError
            Another handle uses the producer's name, or the number is too old to tell whether it was
            appended. Nothing was appended.
        SequenceError
            With `expect`, the records cannot be counted: a claim among them stays open. Nothing was
            appended.
        TailerLagError
            A required tailer is too far behind. Nothing was appended.
        SyncTimeoutError
            The record stays in the log and may be durable.
        LogFailedError
            Nothing is acknowledged. With `sync`, the record may be in the log after the next open.
        DiskFullError, IOFailureError, PoolExhaustedError, ReadOnlyError, ClosedError, ForkedError
            Nothing was appended.
        """
        cdef uint64_t position
        cdef Py_ssize_t value_length
        cdef int code
        if producer is not None or producer_sequence is not None:
            return self.parts.append_once(
                producer, producer_sequence, (value, key, type, timestamp_ns, headers), sync, expect
            )
        if headers is not None and expect is not None:
            return int(self.append_many(
                [value], keys=[key], types=[type], timestamp_ns=timestamp_ns, sync=sync,
                expect=expect, headers=[headers]
            )[0])
        if headers is not None:
            position = (<Engine>self.engine).append_named(
                value, key, type, timestamp_ns, headers,
                self.engine.sync_default if sync is None else self.engine.sync_of(sync)
            )
            return -1 if position == NOT_APPENDED else position
        if value_alone(value, key, type, timestamp_ns, sync) and not self.engine.sync_default:
            value_length = PyBytes_GET_SIZE(value)
            if expect is not None:
                code = try_expected(self.engine, value, expect, &position)
            elif value_length <= CL_FRAME_LIMIT:
                code = cl_writer_append_value(
                    &self.engine.writer, PyBytes_AS_STRING(value), <uint32_t>value_length,
                    &position
                )
            else:
                code = CL_E_TOO_LARGE
            if code == CL_OK:
                if self.engine.writer.roll_due:
                    self.engine.finish_append(
                        position + cl_frame_aligned(CL_FRAME_HEADER + <uint32_t>value_length), False
                    )
                return position
            # `append_any` handles the refusal.
        position = self.engine.append_any(
            value, key, type, timestamp_ns, expect,
            self.engine.sync_default if sync is None else self.engine.sync_of(sync), True
        )
        return -1 if position == NOT_APPENDED else position

    def append_many(
        self, values, *, keys=None, types=None, timestamp_ns=None, sync=None, expect=None,
        headers=None
    ):
        """Append a list of records, after checking all of them.

        Parameters
        ----------
        values : sequence of bytes-like
            The records, in order.
        keys : sequence of bytes-like or None, optional
            One for each value.
        types : sequence of int, optional
            One for each value.
        timestamp_ns : int, optional
            One timestamp for all; by default the current time, read once per batch of up to 64 KiB.
        sync : bool, optional
            As for `append`; one flush for all.
        expect : int, optional
            As for `append`, for the first record. The whole list is appended, or none of it, so its
            frames together must not exceed the log's largest frame. An empty list checks nothing.
        headers : sequence of mapping or None, optional
            One for each value, as for `append`.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one per record; -1 for a dropped record, as for `append`.

        Raises
        ------
        RecordTypeError, RecordTooLargeError, InvalidOptionError, ConflictError, SequenceError
            Nothing was appended.
        DiskFullError, PoolExhaustedError, LogFailedError
            The records below ``tail_position`` were appended, and the rest was not.
        """
        return (<Engine>self.engine).append_all(
            values, keys, types, timestamp_ns, sync, expect, headers
        )

    def append_array(self, rows, *, timestamp_ns=None, sync=None):
        """Append each row of an array as one record, without a Python object per record. The
        records have no headers: `append_many` and `append_arrow` take them.

        Parameters
        ----------
        rows : numpy.ndarray
            Two-dimensional of any fixed-size dtype (a row's bytes are a record), or one-dimensional
            and structured.
        timestamp_ns : int, optional
            One timestamp for all; by default the current time, read once per batch of up to 64 KiB.
        sync : bool, optional
            As for `append`; one flush for all.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one per row; -1 for a dropped row, as for `append`.

        Raises
        ------
        RecordTypeError, RecordTooLargeError
            Nothing was appended.
        """
        return (<Engine>self.engine).append_rows(rows, timestamp_ns, sync)

    def claim(self, size, *, key=None, type=0, timestamp_ns=None, sync=None):
        """Reserve room for a value and write it in place. The record has no headers.

        Parameters
        ----------
        size : int
            Bytes of the value; `Claim.truncate` can make it shorter, never longer.
        key, type, timestamp_ns, sync
            As for `append`.

        Returns
        -------
        Claim
            A context manager. Leaving it publishes the record; an exception rolls it back. If it is
            held longer than ``claim_timeout``, other handles may roll it back, and leaving raises
            `RolledBackError`.

        Raises
        ------
        TailerLagError
            A required tailer is too far behind; also with ``on_lag="drop"``, because a claim needs
            room to write to.
        """
        return (<Engine>self.engine).new_claim(self, size, key, type, timestamp_ns, sync)

    # --- properties and watermarks ----------------------------------------------------------------

    @property
    def path(self):
        """The log's directory."""
        return self.engine.path

    @property
    def pooled(self):
        """Whether the log's writer appends to pool buffers."""
        return self.engine.pooled

    @property
    def segment_size(self):
        """Bytes of each segment file, header included."""
        return self.engine.log.segment_size

    @property
    def largest_value(self):
        """The longest value, in bytes, that an append without key and type can take."""
        return self.engine.largest_value

    @property
    def tail_position(self):
        """Where the next record is claimed; frames below it may not be published yet. For another
        process's pooled log, the end of its committed records.
        """
        return self.engine.tail_position

    @property
    def appended_position(self):
        """The end of the prefix in which every claim is published or rolled back."""
        return self.engine.appended_position

    @property
    def committed_position(self):
        """The end of the records in the segment files, which other processes see. On a mapped log
        the same as appended.
        """
        return self.engine.committed_position

    @property
    def flushed_position(self):
        """The end of the records that survive a power cut."""
        return self.engine.flushed_position

    @property
    def replicated_position(self):
        """The end of the records that enough copies have durably: as many as the writer's
        `replicate=` requires, at least one. 0 without such a writer.
        """
        return self.engine.replicated_position
