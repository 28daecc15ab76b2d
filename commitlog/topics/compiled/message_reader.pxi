# Reading messages of a log into the caller's memory: a hot path of the bus.


cdef enum:
    PASSED_AT_ONCE = 1024  # messages that an iterator passes over before it checks for signals

# What a reader gives in a `for` loop: messages of its classes, or bytes.
Given = typing.TypeVar("Given")


cdef class MessageIterator:
    """The messages of a reader in a `for` loop: see `BusReader.follow`."""
    cdef MessageReader reader
    cdef Patience patience

    def __init__(self):
        raise TypeError("a message iterator cannot be constructed: call BusReader.follow")

    def __iter__(self):
        return self

    def __next__(self):
        if self.reader.find_given() or (
            self.patience.budget_ns > 0 and self.reader.await_next(self.patience, True)
        ):
            return self.reader.given()
        raise StopIteration

    def __reduce__(self):
        raise TypeError(
            "a message iterator cannot be pickled: call follow() in the process that reads"
        )


cdef class MessageReader:
    """Read messages from a log: see `commitlog.bus.reader`."""
    cdef Cursor cursor
    cdef dict classes      # what a loop gives, by type number; None: bytes
    cdef object idle       # how `next` and `follow` wait by default
    cdef _Known known
    cdef cl_record record  # its bytes stay mapped while the cursor is in their segment
    cdef bint standing     # there is a current message
    cdef bint recovered
    cdef bint closed
    cdef uint64_t end

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, ReadMethods tailer not None, end, idle, classes=None):
        self.known = _Known()
        self.cursor = tailer.cursor
        self.end = end
        self.idle = idle
        if classes is not None:
            self.classes = {}
            for each in classes:
                self.give(each)
            if not self.classes:
                raise InvalidOptionError(
                    "classes= is empty: name the message classes, or leave it out to get bytes"
                )

    cdef int give(self, kind) except -1:
        shape = getattr(kind, "layout", None)
        if not PyType_Check(kind) or not isinstance(shape, Shape):
            raise InvalidOptionError(
                f"classes= takes message classes, not {reprlib.repr(kind)}: derive it from "
                "bus.Message"
            )
        self.known.meet(shape, self.cursor.core.path)
        self.classes[(<Shape>shape).type] = kind
        return 0

    def __iter__(self):
        """Iterate over the messages up to the current end: `follow` without waiting."""
        return self.follow(0)

    def follow(self, timeout=None, idle=None):
        """Iterate over messages as they arrive.

        Each message is a new object of its class, if the reader was opened with `classes`; messages
        of other types are skipped. Without `classes`, each is `bytes`. In the loop, `type`,
        `position` and `timestamp_ns` are those of the message.

        Parameters
        ----------
        timeout : float, str or None
            End if no such message arrives for that long; None never ends.
        idle : {"spin", "yield", "backoff", "block"}, optional
            How to wait, as `Tailer.follow` explains [default: the reader's `idle`].

        Returns
        -------
        iterator of Message or bytes
            Raises what `next` and `read` raise; the next iteration then continues after that
            message.
        """
        cdef MessageIterator messages = MessageIterator.__new__(MessageIterator)
        messages.reader = self
        messages.patience = patience_of(timeout, idle or self.idle)
        return messages

    cdef bint find_given(self) except -1:
        """Move to the next message that a loop gives; whether there is one."""
        cdef int passed = 0
        while self.look():
            if self.classes is None or self.record.type in self.classes:
                return True
            self.standing = False
            passed += 1
            if passed % PASSED_AT_ONCE == 0:
                PyErr_CheckSignals()
                with nogil:
                    pass  # lets other threads run
        return False

    cdef object given(self):
        """The current message, as a loop gives it."""
        if self.classes is None:
            return self.read_bytes()
        return self.new_message(<type>self.classes[self.record.type])

    def next(self, timeout=0, idle=None):
        """Move to the next message. A message that was not read is skipped as a whole.

        Parameters
        ----------
        timeout : float, str or None
            Seconds, or text like ``"500ms"``, to wait for one; None waits without a bound.
        idle : {"spin", "yield", "backoff", "block"}, optional
            How to wait, as `Tailer.follow` explains [default: the reader's `idle`].

        Returns
        -------
        bool
            False if no message arrived in time. The reader then has no current message.

        Raises
        ------
        ClosedError
            The reader or its log is closed.
        CorruptRecordError
            The next record is damaged, and the reader was not opened with ``on_damage="skip"``.
        """
        if self.look():
            return True
        if timeout is not None and timeout == 0:
            return False
        return self.await_next(patience_of(timeout, idle or self.idle), False)

    cdef inline bint look(self) except -1:
        self.standing = False
        self.check_open()
        if self.cursor.next_record(&self.record) == CL_OK:
            self.standing = True
            return True
        return False

    cdef bint await_next(self, Patience patience, bint given) except -1:
        """Wait for the next message, or with `given` for the next that a loop gives."""
        cdef int64_t deadline_ns = cl_clock_monotonic_ns() + patience.budget_ns
        cdef int64_t left_ns = patience.budget_ns
        while left_ns > 0:
            wait_for(self.cursor, patience.idle, left_ns)
            if self.find_given() if given else self.look():
                return True
            if not patience.endless:
                left_ns = deadline_ns - cl_clock_monotonic_ns()
        return False

    @property
    def type(self):
        """The current message's type number."""
        self.check_standing()
        return self.record.type

    @property
    def length(self):
        """The current message's size in bytes."""
        self.check_standing()
        return self.record.value_length

    @property
    def position(self):
        """The current message's position in the log."""
        self.check_standing()
        return self.record.position

    @property
    def timestamp_ns(self):
        """When the current message was claimed, in nanoseconds since 1970."""
        self.check_standing()
        return self.record.timestamp_ns

    @property
    def has_recovered(self):
        """Return whether the reader has passed the position at which the log ended when the reader
        was opened. Each further message is new.
        """
        if not self.recovered:
            self.recovered = self.cursor.position >= self.end
        return self.recovered

    def read(self, into=None):
        """Return the current message; until `next`, repeated calls return the same one.

        Parameters
        ----------
        into : Message, type of Message, or writable buffer, optional
            A message is refilled; a message class gives a new message. Both must have the type
            number and the size of the current message. A buffer must be at least as long; its bytes
            after the message stay unchanged.

        Returns
        -------
        bytes, Message or int
            The bytes, the message, or the number of bytes copied into the buffer.

        Raises
        ------
        PositionError
            There is no current message: `next` has not been called, or returned False.
        MessageError
            The current message is of another class. Nothing was read; read it into its own class.
        RecordTooLargeError
            The buffer is too short. Nothing was read; read the message into a larger one.
        """
        self.check_standing()
        if into is None:
            return self.read_bytes()
        if isinstance(into, MessageBytes):
            return self.refill(<MessageBytes>into)
        if PyType_Check(into) and issubclass(into, MessageBytes):
            return self.new_message(<type>into)
        return self.copy_to(into)

    cdef inline bytes read_bytes(self):
        return PyBytes_FromStringAndSize(<const char *>self.record.value, self.record.value_length)

    cdef inline MessageBytes new_message(self, type kind):
        return self.refill(kind.__new__(kind))

    cdef inline MessageBytes refill(self, MessageBytes message):
        if message.shape is not self.known.last:
            self.known.meet(message.shape, self.cursor.core.path)
        if self.record.type != message.shape.type or self.record.value_length != message.shape.size:
            raise self.mismatch(message.shape)
        memcpy(message.data, self.record.value, self.record.value_length)
        return message

    cdef object copy_to(self, into):
        cdef Py_buffer view
        if PyByteArray_CheckExact(into) and PyByteArray_GET_SIZE(into) >= self.record.value_length:
            memcpy(PyByteArray_AS_STRING(into), self.record.value, self.record.value_length)
            return self.record.value_length
        try:
            PyObject_GetBuffer(into, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (TypeError, BufferError, ValueError):
            raise RecordTypeError("into must be a message, a message class, or a writable "
                                  "contiguous buffer such as a bytearray, not "
                                  f"{reprlib.repr(into)}") from None
        try:
            if view.format != NULL and b"O" in <bytes>view.format:
                raise RecordTypeError(
                    "into must be a buffer of bytes, not of references to objects"
                )
            if view.len < self.record.value_length:
                raise RecordTooLargeError(
                    f"the message has {self.record.value_length} bytes and the buffer {view.len}: "
                    "read it again into a larger buffer",
                    path=self.cursor.core.path, position=self.record.position,
                    size=self.record.value_length, limit=view.len)
            memcpy(view.buf, self.record.value, self.record.value_length)
            return self.record.value_length
        finally:
            PyBuffer_Release(&view)

    cdef inline int check_standing(self) except -1:
        if not self.standing:
            self.check_open()
            raise PositionError(
                "there is no current message: call next(), and read if it returns True",
                path=self.cursor.core.path
            )
        return 0

    cdef inline int check_open(self) except -1:
        if self.closed:
            raise ClosedError("the reader is closed: open another", path=self.cursor.core.path)
        return 0

    cdef object mismatch(self, Shape shape):
        return MessageError(
            f"the current message has type {self.record.type} and {self.record.value_length} "
            f"bytes, but {shape.name} has type {shape.type} and {shape.size} bytes: check "
            "reader.type, and read it into its own class or as bytes",
            path=self.cursor.core.path, position=self.record.position)

    def let_go(self):
        """Close the reader. Afterwards it has no current message."""
        self.standing = False
        self.closed = True
