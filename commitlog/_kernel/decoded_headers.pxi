# Headers between their bytes and the kernel: see c/headers.h.


cdef dict decode_headers(const cl_headers *found):
    """Return the headers by name, in their order; None if they are malformed."""
    cdef const uint8_t *at = found.bytes
    cdef uint32_t left = found.length
    cdef uint32_t name_length, value_length
    cdef dict headers = {}
    while left > 0 and at[0] != 0:
        name_length = at[0]
        if left < CL_HEADER_FIXED + name_length:
            return None
        value_length = at[1] | at[2] << 8
        if left - CL_HEADER_FIXED - name_length < value_length:
            return None
        at += CL_HEADER_FIXED
        try:
            name = (<const char *>at)[:name_length].decode("utf-8")
        except UnicodeDecodeError:
            return None
        if name in headers or len(headers) == CL_HEADERS_MOST:
            return None
        at += name_length
        headers[name] = PyBytes_FromStringAndSize(<const char *>at, value_length)
        at += value_length
        left -= CL_HEADER_FIXED + name_length + value_length
    while left > 0 and at[0] == 0:
        at += 1
        left -= 1
    return headers if left == 0 else None


cdef cl_headers *headers_in(list encoded) except? NULL:
    """Return an array of encoded headers, which points into the list; NULL if all are empty. The
    caller frees it.
    """
    cdef Py_ssize_t index
    cdef bytes one
    cdef cl_headers *headers
    if not any(encoded):
        return NULL
    headers = <cl_headers *>malloc(len(encoded) * sizeof(cl_headers))
    if headers == NULL:
        raise MemoryError
    for index in range(len(encoded)):
        one = encoded[index]
        headers[index].bytes = <const uint8_t *>PyBytes_AS_STRING(one)
        headers[index].length = <uint32_t>PyBytes_GET_SIZE(one)
    return headers
