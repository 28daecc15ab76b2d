# Appending the messages of a topic: a hot path.


cdef class LastAppend:
    """The position of the last record that the topics of a handle have appended."""
    cdef public int64_t position


cdef class DeclaredSegment:
    """The segment in which a handle has appended the schema of a topic.

    Attributes
    ----------
    end : int
        Where it ends; -1 if there is none yet.
    far_end : int
        Any message fits the segment if the last record is below this position.
    """
    cdef public int64_t end, far_end

    def __cinit__(self):
        self.end = self.far_end = -1


cdef class TopicWriter:
    """Append messages of one class: the base of `Topic`.

    Parameters
    ----------
    target : CommitLog
        The log.
    message_class : type or None
        The class of the messages; None if the codec alone can tell.
    encode : callable
        Encodes a message.
    screen : MessageScreen or None
        Finds messages that would be read back as something else; None if there are none.
    pipe : TopicPipe
        Appends what `append` does not: the first message of a segment, and all messages with
        layers.
    type : int or None
        The type number of the messages; None if they have layers.
    last : LastAppend
        That of the handle.
    declared : DeclaredSegment
        That of the topic.
    handled : ContextVar
        Its value is not None while another message is handled.
    """
    cdef LogMethods target
    cdef object message_class, encode, pipe, type, handled
    cdef MessageScreen screen
    cdef LastAppend last
    cdef DeclaredSegment declared

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(
        self, LogMethods target not None, message_class, encode, MessageScreen screen, pipe,
        type, LastAppend last not None, DeclaredSegment declared not None, handled
    ):
        self.target = target
        self.message_class = message_class
        self.encode = encode
        self.screen = screen
        self.pipe = pipe
        self.type = type
        self.last = last
        self.declared = declared
        self.handled = handled

    def append(
        self, message, *, key=None, timestamp_ns=None, sync=None, expect=None, producer=None,
        producer_sequence=None, headers=None
    ):
        """Append one message.

        Parameters
        ----------
        message : object
            A message of the topic's class.
        key, timestamp_ns, sync
            As for `CommitLog.append`.
        expect : int, optional
            Append only if the log ends at this sequence, such as `TopicTailer.next_sequence`.
            Schemas have sequences, too: if the message needs one before it, both are appended, or
            neither is.
        producer, producer_sequence
            As for `CommitLog.append`: a repeat of a number returns the position of the first
            message. It may append the schema.
        headers : mapping of str to bytes-like, optional
            As for `CommitLog.append`. No layer changes them: they are neither compressed nor
            encrypted.

        Returns
        -------
        int
            The position of the message; -1 if it was dropped, as for `CommitLog.append`.

        Raises
        ------
        MessageError, MessageValueError, RecordTooLargeError
            The message is of another class, its codec cannot encode a value, or a value would be
            read back as another one. Nothing was appended.
        ConflictError
            The log ends at another sequence than `expect`. Nothing was appended.
        InUseError, ProducerSequenceError
            As for `CommitLog.append`. No message was appended.
        CommitLogError
            As for `CommitLog.append`.
        """
        cdef Writer log
        cdef uint64_t position
        value = None
        if (expect is None and producer is None and producer_sequence is None
                and headers is None):
            value = self.plain_value(message)
        if value is None:
            return self._append_otherwise(
                message, (key, timestamp_ns, sync), expect, (producer, producer_sequence), headers
            )
        if self.type is None or self.last.position >= self.declared.far_end:
            return self.pipe.append(value, key, timestamp_ns, sync, None)
        log = self.target.engine
        position = log.append_any(
            value, key, self.type, timestamp_ns, None,
            log.sync_default if sync is None else log.sync_of(sync), True
        )
        if position == NOT_APPENDED:
            return -1
        if <int64_t>position >= self.declared.end:
            self.pipe.declare_behind(position)
        self.last.position = max(<int64_t>position, self.last.position)
        return position

    cdef plain_value(self, message):
        """Return the value of a message of the class that is written while none is handled. Return
        None for any other, and for one that cannot be encoded or that the screen refuses:
        `_append_otherwise` encodes it again, for an error that names the field.
        """
        cdef PyObject *handled = NULL
        if self.message_class is not None and type(message) is not self.message_class:
            return None
        PyContextVar_Get(self.handled, NULL, &handled)
        Py_XDECREF(handled)
        if handled != <PyObject *>None:
            return None
        try:
            value = self.encode(message)
            if self.screen is not None:
                self.screen.pass_message(message, value)
            return value
        except Exception:
            return None
