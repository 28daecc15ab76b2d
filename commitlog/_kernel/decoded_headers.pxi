# Decodes the headers of a record: see c/headers.h.


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
