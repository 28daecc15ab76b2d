# Writing messages to a log from the caller's memory: a hot path of the bus.


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
        cdef bint durable = log.sync_default if sync is None else log.sync_of(sync)
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
        record.timestamp_ns = -1
        position = log.put(&record, NULL, durable, True)
        return -1 if position == NOT_APPENDED else position

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
