# Records, as reading gives them.


@cython.freelist(64)
cdef class Record:
    """One record, copied out of the log.

    Attributes
    ----------
    position : int
        Its address in the log.
    timestamp_ns : int
        Nanoseconds since 1970, taken when it was claimed.
    timestamp : datetime.datetime
        The same in UTC, to the microsecond. Made when it is asked for.
    type : int
        0 unless the appender gave one.
    key : bytes or None
        None: not keyed.
    value : bytes
        What was appended.
    """

    __signature__ = Signature()

    def __init__(self):
        raise TypeError("records are read with a tailer")

    @property
    def timestamp(self):
        return utc_datetime(self.timestamp_ns)

    @property
    def sequence(self):
        """Its ordinal among the log's records, from 0. Found when it is asked for: beside a record
        whose sequence is known, at next to no cost.

        Raises
        ------
        SequenceError
            A claim below it is still open, so that it is not known yet; or the record was pickled
            before it was known.
        """
        if self.ordinal == 0:
            if self.segment is None:
                raise SequenceError(
                    "the sequence of this record was not known when it was pickled",
                    position=self.position
                )
            self.ordinal = 1 + <unsigned long long>sequence_of(
                self.segment, self.position - self.segment.segment.base
            )
        return self.ordinal - 1

    def view(self):
        """The value without a copy: a read-only memoryview of the mapped segment, which stays
        mapped as long as the view lives. Of a record that was not committed yet when it was read,
        or was pickled, a view of `value`.

        Returns
        -------
        memoryview
        """
        if self.value_offset == 0:
            return memoryview(self.value)
        return self.segment.view(self.value_offset, len(self.value))

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        cdef Record theirs = other
        return (self.position == theirs.position and self.timestamp_ns == theirs.timestamp_ns
                and self.type == theirs.type
                and self.key == theirs.key and self.value == theirs.value)

    def __hash__(self):
        return hash((self.position, self.timestamp_ns, self.value))

    def __repr__(self):
        return (f"Record(position={self.position}, timestamp_ns={self.timestamp_ns}, "
                f"type={self.type}, key={self.key!r}, "
                f"value={self.value!r})")

    def __reduce__(self):
        try:
            sequence = self.sequence
        except CommitLogError:
            sequence = None
        return _record, (
            self.position, self.timestamp_ns, self.type, self.key, self.value, sequence
        )


def _record(position, timestamp_ns, type, key, value, sequence):
    cdef Record record = Record.__new__(Record)
    record.position = position
    record.timestamp_ns = timestamp_ns
    record.type = type
    record.key = key
    record.value = value
    record.ordinal = 0 if sequence is None else sequence + 1
    return record
