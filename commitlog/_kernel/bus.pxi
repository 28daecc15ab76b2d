# The hot paths of the bus: write a message from the caller's memory, read one into it.


cdef enum:
    PASSED_AT_ONCE = 1024  # messages that an iterator passes over before it checks for signals

# What a reader gives in a `for` loop: messages of its classes, or bytes.
Given = typing.TypeVar("Given")


cdef class _Known:
    """The message classes that one handle has used, by type number. A number has one class."""
    cdef dict shapes
    cdef set met
    cdef Shape last

    def __cinit__(self):
        self.shapes = {}
        self.met = set()

    cdef int meet(self, Shape shape, path) except -1:
        if shape not in self.met and self.shapes.setdefault(shape.type, shape) is not shape:
            other = self.shapes[shape.type]
            raise MessageError(
                f"{other.name} and {shape.name} both have type {shape.type}: give each message "
                "class of a bus a type number of its own", path=path)
        self.met.add(shape)
        self.last = shape
        return 0


cdef class MessageClaim:
    """Reserved space in the log for one message, from `BusWriter.claim`. Its `with` statement
    returns the message.
    """
    cdef object claim
    cdef MessageBytes message
    cdef Py_buffer view
    cdef bint entered

    def __cinit__(self):
        memset(&self.view, 0, sizeof(self.view))

    def __init__(self):
        raise TypeError("a claim cannot be constructed: call BusWriter.claim")

    @property
    def position(self):
        """The position of the message in the log."""
        return self.claim.position

    def __enter__(self):
        if self.entered:
            raise ClaimError("a claim can be entered only once", position=self.claim.position)
        self.claim.__enter__()
        PyObject_GetBuffer(self.claim.buffer, &self.view, PyBUF_WRITABLE)
        self.entered = True
        self.message.place_at(<uint8_t *>self.view.buf)
        return self.message

    def __exit__(self, kind, error, traceback):
        self.leave()
        return self.claim.__exit__(kind, error, traceback)

    cdef void leave(self) noexcept:
        self.message.take_home()
        PyBuffer_Release(&self.view)  # may be called again

    def __del__(self):
        # Dropped inside its `with`: the claim releases the bytes, so the message must leave them.
        if self.entered:
            self.leave()


cdef class MessageWriter:
    """Write messages to a log: see `commitlog.bus.writer`."""
    cdef LogMethods target
    cdef _Known known

    def __init__(self, LogMethods target not None):
        self.target = target
        self.known = _Known()

    def write(self, message, *, type=None, sync=None):
        """Append one message.

        Parameters
        ----------
        message : Message or bytes-like
            The bytes of a message are appended as they are, with the type number of its class.
        type : int, optional
            The type of raw bytes, from 0 to 4294967295 [default: 0]. A message has its own.
        sync : bool, optional
            Wait until the message is durable [default: True under ``flush="sync"``].

        Returns
        -------
        int
            The message's position.

        Raises
        ------
        MessageError
            This writer wrote another class with the same type number, or `type` was given with a
            message.
        RecordTypeError, RecordTooLargeError, DiskFullError, LogFailedError, ReadOnlyError,
        ClosedError
            Nothing was appended.
        SyncTimeoutError
            The message stays in the log and may be durable.
        """
        cdef cl_record_input record
        cdef MessageBytes placed
        cdef Writer log = self.target.engine
        cdef uint64_t position
        cdef bint durable = log.sync_default if sync is None else sync
        if PyBytes_CheckExact(message) and PyBytes_GET_SIZE(message) <= CL_FRAME_LIMIT:
            record.value = PyBytes_AS_STRING(message)
            record.value_length = <uint32_t>PyBytes_GET_SIZE(message)
            record.type = 0 if type is None else type_of(type)
        elif isinstance(message, MessageBytes):
            placed = <MessageBytes>message
            if placed.shape is not self.known.last:
                self.known.meet(placed.shape, log.path)
            if type is not None:
                raise MessageError(
                    f"{placed.shape.name} has its own type, {placed.shape.type}: leave type= out",
                    path=log.path
                )
            record.value = placed.data
            record.value_length = placed.shape.size
            record.type = placed.shape.type
        else:
            return self.target.append(message, type=0 if type is None else type, sync=sync)
        record.key = NULL
        record.key_length = CL_KEYLEN_NONE
        record.timestamp_ns = log.stamped(-1)
        position = log.put(&record, durable, True)
        if position == NOT_APPENDED:
            return -1
        if durable or log.writer.roll_due:
            log.finish_append(
                position + cl_frame_aligned(<uint32_t>cl_input_length(&record)), durable
            )
        return position

    def claim(self, what, *, type=None, sync=None):
        """Reserve space for a message, to write it in place.

        Parameters
        ----------
        what : type of Message, or int
            A message class, or the size in bytes of a raw message.
        type : int, optional
            The type of a raw message.
        sync : bool, optional
            As for `write`.

        Returns
        -------
        MessageClaim or Claim
            A context manager. `MessageClaim` gives a message of zeros, which keeps its values when
            the claim ends; `Claim` has a `buffer`. Leaving the `with` block publishes the message,
            an exception rolls it back. After ``claim_timeout`` another process may roll it back,
            and leaving the block then raises `RolledBackError`.
        """
        cdef MessageClaim held
        if not PyType_Check(what):
            return self.target.claim(what, type=0 if type is None else type, sync=sync)
        if not issubclass(what, MessageBytes):
            raise RecordTypeError(f"claim takes a message class or a size in bytes, not {what!r}")
        held = MessageClaim.__new__(MessageClaim)
        held.message = what.__new__(what)
        self.known.meet(held.message.shape, self.target.engine.path)
        if type is not None:
            raise MessageError(
                f"{held.message.shape.name} has a type of its own: leave type= out",
                path=self.target.engine.path
            )
        held.claim = self.target.claim(
            held.message.shape.size, type=held.message.shape.type, sync=sync
        )
        return held


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
                    pass  # other threads get their turn
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
        if self.closed:
            raise ClosedError("the reader is closed: open another", path=self.cursor.core.path)
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
        if not self.standing:
            raise self.nothing()
        return self.record.type

    @property
    def length(self):
        """The current message's size in bytes."""
        if not self.standing:
            raise self.nothing()
        return self.record.value_length

    @property
    def position(self):
        """The current message's position in the log."""
        if not self.standing:
            raise self.nothing()
        return self.record.position

    @property
    def timestamp_ns(self):
        """When the current message was claimed, in nanoseconds since 1970."""
        if not self.standing:
            raise self.nothing()
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
        if not self.standing:
            raise self.nothing()
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

    cdef object nothing(self):
        if self.closed:
            return ClosedError("the reader is closed: open another", path=self.cursor.core.path)
        return PositionError("there is no current message: call next(), and read if it returns "
                             "True",
                             path=self.cursor.core.path)

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
