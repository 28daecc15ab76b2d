# Messages: bytes with a layout, of their own or in place.


cdef class Shape:
    """What the kernel needs of a message class: its name for errors, its type number, its size in
    bytes.
    """
    cdef readonly str name
    cdef readonly uint32_t type
    cdef readonly uint32_t size

    def __init__(self, str name not None, uint32_t type, uint32_t size):
        self.name = name
        self.type = type
        self.size = size


cdef class MessageBytes:
    """The bytes of one message: its own, or, in place, those of a claim. A subclass has a `layout`,
    which is a `Shape`.
    """
    cdef uint8_t *data  # its own bytes, or a claim's while it is in place
    cdef uint8_t *own
    cdef Shape shape

    def __cinit__(self, *args, **kwargs):
        shape = getattr(type(self), "layout", None)
        if not isinstance(shape, Shape):
            raise MessageError(
                f"{type(self).__name__} has no fields: derive a message class from it, with type= "
                "and fields"
            )
        self.shape = shape
        self.own = <uint8_t *>PyMem_Calloc(1, self.shape.size)
        if self.own == NULL:
            raise MemoryError
        self.data = self.own

    def __dealloc__(self):
        PyMem_Free(self.own)

    cdef void place_at(self, uint8_t *claimed) noexcept:
        """Move the message to these bytes, and make them zero."""
        memset(claimed, 0, self.shape.size)
        self.data = claimed

    cdef void take_home(self) noexcept:
        """Copy what was written in the claim to the message's own bytes, because the claim ends."""
        if self.data != self.own:
            memcpy(self.own, self.data, self.shape.size)
            self.data = self.own

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.data != self.own:
            raise ClaimError(
                "a message exports no buffer inside its claim's `with` block, because the claim "
                "owns the bytes: copy "
                "them with bytes(message), or wait until the `with` has ended"
            )
        PyBuffer_FillInfo(buffer, self, self.own, self.shape.size, 0, flags)

    def __releasebuffer__(self, Py_buffer *buffer):
        pass

    def __bytes__(self):
        return PyBytes_FromStringAndSize(<const char *>self.data, self.shape.size)

    def __reduce__(self):
        return message_from, (type(self), bytes(self))


def message_from(kind, content):
    """Make a message of a class from its bytes, as pickle does.

    Raises
    ------
    MessageValueError
        The bytes have another size than the class.
    """
    cdef MessageBytes message = kind.__new__(kind)
    cdef bytes octets = content
    if PyBytes_GET_SIZE(octets) != message.shape.size:
        raise MessageValueError(
            f"{message.shape.name} has {message.shape.size} bytes, not {PyBytes_GET_SIZE(octets)}"
        )
    memcpy(message.own, PyBytes_AS_STRING(octets), message.shape.size)
    return message
