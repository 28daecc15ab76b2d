# Checks the values, keys, types and timestamps that callers give.


cdef object wrong_type(str what, value):
    if isinstance(value, str):
        return RecordTypeError(
            f"{what} must be bytes, not str: encode it first, for instance with .encode()"
        )
    return RecordTypeError(
        f"{what} must be bytes or offer the buffer protocol, not {type(value).__name__}"
    )


cdef int bytes_of(object value, str what, Py_buffer *view) except -1:
    """Fill a view of contiguous bytes; the caller releases it."""
    if isinstance(value, str) or not PyObject_CheckBuffer(value):
        raise wrong_type(what, value)
    try:
        PyObject_GetBuffer(value, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    except (BufferError, ValueError) as error:
        raise RecordTypeError(
            f"{what} must be contiguous, readable bytes: {error}"
        ) from None
    if view.format != NULL and b"O" in <bytes>view.format:
        PyBuffer_Release(view)
        raise RecordTypeError(f"{what} must be bytes, not an array of references to objects")
    return 0


cdef bytes as_bytes(object value, str what):
    """Copy contiguous bytes."""
    cdef Py_buffer view
    bytes_of(value, what, &view)
    try:
        return PyBytes_FromStringAndSize(<const char *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef uint32_t type_of(object type) except? 0xFFFFFFFF:
    try:
        return PyNumber_Index(type)
    except (TypeError, OverflowError):
        raise RecordTypeError(f"type must be an int from 0 to 4294967295, not {type!r}") from None


cdef int64_t timestamp_of(object timestamp_ns) except? -2:
    """Check a timestamp; -1 for None, the clock's."""
    cdef int64_t value
    if timestamp_ns is None:
        return -1
    try:
        value = PyNumber_Index(timestamp_ns)
    except (TypeError, OverflowError):
        raise RecordTypeError(
            f"timestamp_ns must be an int of nanoseconds since 1970, not {timestamp_ns!r}"
        ) from None
    if value < 0:
        raise RecordTypeError(f"timestamp_ns must not be before 1970, not {value}")
    return value
