# The records that reading returns.

cdef extern from *:
    """
    #include <structmember.h>
    /* Slots instead of getters: the interpreter specializes their loads (LOAD_ATTR_SLOT). The
     * struct, whose name Cython gives, is defined later in the file. */
    #define CL_RECORD_SLOT(field)                                                       \\
        {#field, T_OBJECT_EX,                                                           \\
         offsetof(struct __pyx_obj_9commitlog_7_kernel_7readers_Record, field), READONLY, NULL}
    static int cl_add_record_slots(PyTypeObject *type, PyMemberDef *slots) {
        for (; slots->name != NULL; slots++) {
            PyObject *slot = PyDescr_NewMember(type, slots);
            int code = slot == NULL ? -1 : PyDict_SetItemString(type->tp_dict, slots->name, slot);
            Py_XDECREF(slot);
            if (code != 0) {
                return -1;
            }
        }
        PyType_Modified(type);
        return 0;
    }
    #define CL_ADD_RECORD_SLOTS(type)                                                   \\
        ({static PyMemberDef slots[] = {CL_RECORD_SLOT(key), CL_RECORD_SLOT(value), {0}}; \\
          cl_add_record_slots((PyTypeObject *)(type), slots);})
    """
    int add_record_slots "CL_ADD_RECORD_SLOTS"(type record) except -1


@cython.freelist(64)
cdef class Record:
    """Hold one record, copied out of the log.

    Attributes
    ----------
    position : int
        Its address in the log.
    timestamp_ns : int
        Nanoseconds since 1970, taken when it was claimed.
    timestamp : datetime.datetime
        The same in UTC, to the microsecond. Computed on each access.
    type : int
        0 unless the appender gave one.
    key : bytes or None
        None: not keyed.
    value : bytes
        The appended bytes.
    """
    cdef readonly uint64_t position
    cdef readonly long long timestamp_ns
    cdef readonly unsigned int type
    cdef object key               # read in Python through slots
    cdef bytes value
    cdef Segment segment
    cdef unsigned int value_offset  # in the segment's file; 0: not there when it was read
    cdef unsigned long long ordinal  # its sequence and one, where it was asked for; 0: not yet

    __signature__ = Signature()

    def __init__(self):
        raise TypeError("a record cannot be constructed: read it with a tailer")

    @property
    def timestamp(self):
        return utc_datetime(self.timestamp_ns)

    @property
    def sequence(self):
        """Return the record's ordinal in the log, from 0. It is computed on first access; this is
        cheap if the sequence of a nearby record is known.

        Raises
        ------
        SequenceError
            A claim below the record is still open, or the record was pickled before its sequence
            was known.
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

    @property
    def headers(self):
        """Return the record's headers, a dict of names to bytes in their order; empty if it has
        none. Each access decodes them anew, from the log.

        Raises
        ------
        CorruptSegmentError
            The headers are damaged, although the record is not.
        ClosedError
            The record was read before its commit, and the log failed or was closed since.
        """
        if self.segment is None:
            return {}
        return headers_at(self.segment, self.position - self.segment.segment.base)

    def view(self):
        """Return the value without a copy: a read-only memoryview of the mapped segment, which
        stays mapped as long as the view lives. If the record was read before its commit, or was
        pickled, this is a view of `value`.

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
                and self.type == theirs.type and self.key == theirs.key
                and self.value == theirs.value and self.headers == theirs.headers)

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
        state = self.position, self.timestamp_ns, self.type, self.key, self.value, sequence
        headers = self.headers
        return _record, (*state, headers) if headers else state


@cython.final
cdef class DetachedRecord(Record):
    """A record that was pickled, with its headers: it has no segment to read them from."""
    cdef dict named

    @property
    def headers(self):
        return dict(self.named)


cdef inline Record make_record(Segment segment, const cl_record *native):
    cdef Record record = Record.__new__(Record)
    record.position = native.position
    record.timestamp_ns = native.timestamp_ns
    record.type = native.type
    record.key = None if native.key == NULL else PyBytes_FromStringAndSize(
        <const char *>native.key, native.key_length
    )
    record.value = PyBytes_FromStringAndSize(<const char *>native.value, native.value_length)
    record.segment = segment
    if segment.segment.map <= native.value <= segment.segment.map + segment.segment.size:
        record.value_offset = <uint32_t>(native.value - segment.segment.map)
    return record


add_record_slots(Record)


def _record(position, timestamp_ns, type, key, value, sequence, headers=None):
    cdef Record record
    cdef DetachedRecord detached
    if headers is None:
        record = Record.__new__(Record)
    else:
        record = detached = DetachedRecord.__new__(DetachedRecord)
        detached.named = headers
    record.position = position
    record.timestamp_ns = timestamp_ns
    record.type = type
    record.key = key
    record.value = value
    record.ordinal = 0 if sequence is None else sequence + 1
    return record
