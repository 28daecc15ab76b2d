# Encodes the headers of records that are appended, and cuts batches of them: see c/headers.h.


cdef inline uint64_t end_with_headers(
    uint64_t position, const cl_record_input *record, const cl_headers *headers
) noexcept:
    """Where a record ends that begins, with its headers, at a position; NULL: it has none."""
    return end_of(position + (0 if headers == NULL else cl_headers_size(headers)), record)


cdef Py_ssize_t batch_of(
    const cl_record_input *records, const cl_headers *headers, Py_ssize_t count, uint64_t most,
    uint64_t *length
) noexcept:
    """Return how many of the records are the next batch, and how many bytes they take with their
    headers: at most `most` if they are several.
    """
    cdef Py_ssize_t end = 0
    cdef uint64_t bytes
    length[0] = 0
    while end < count:
        bytes = end_with_headers(length[0], &records[end], headers)
        if headers != NULL:
            headers += 1
        if bytes > most and end > 0:
            break
        length[0] = bytes
        end += 1
    return end


cdef bytes encode_headers(object headers):
    """Check and encode the headers of one record; empty without any."""
    cdef list parts = []
    cdef set names = set()
    cdef bytes encoded
    if headers is None:
        return b""
    if not isinstance(headers, (dict, Mapping)):
        raise RecordTypeError(
            f"headers must be a mapping of names to bytes, not {type(headers).__name__}"
        )
    if len(headers) > CL_HEADERS_MOST:
        raise too_many_headers(len(headers))
    for name, value in headers.items():
        encoded_name = header_name(name)
        if encoded_name in names:
            raise InvalidOptionError(f"a record has each header once, and {name!r} is there twice")
        names.add(encoded_name)
        if len(names) > CL_HEADERS_MOST:  # of a mapping with another length
            raise too_many_headers(len(names))
        content = (
            value if PyBytes_CheckExact(value) else as_bytes(value, f"the header {name!r}")
        )
        if len(content) > 0xFFFF:
            raise headers_too_large(len(content))
        parts.append(len(encoded_name).to_bytes(1, "little"))
        parts.append(len(content).to_bytes(2, "little"))
        parts.append(encoded_name)
        parts.append(content)
    encoded = b"".join(parts)
    if PyBytes_GET_SIZE(encoded) > CL_HEADERS_LARGEST:
        raise headers_too_large(PyBytes_GET_SIZE(encoded))
    return encoded


def headers_length(headers):
    """Check the headers of one record; return how many bytes they take in front of it."""
    cdef bytes encoded = encode_headers(headers)
    cdef cl_headers native
    native.length = <uint32_t>PyBytes_GET_SIZE(encoded)
    return cl_headers_size(&native)


cdef bytes header_name(object name):
    cdef bytes encoded = b""
    if not isinstance(name, str):
        raise RecordTypeError(f"the name of a header must be a str, not {name!r}")
    try:
        encoded = str.encode(name)  # a subclass may have another one
    except UnicodeEncodeError:
        pass  # a lone surrogate
    if not 0 < PyBytes_GET_SIZE(encoded) <= CL_HEADER_NAME_MOST:
        raise InvalidOptionError(
            f"the name of a header must have 1 to {CL_HEADER_NAME_MOST} bytes in UTF-8, "
            f"not {name!r}"
        )
    return encoded


cdef object too_many_headers(count):
    return RecordTooLargeError(
        f"a record has at most {CL_HEADERS_MOST} headers, not {count}: put more of them into its "
        "value", size=count, limit=CL_HEADERS_MOST)


cdef object headers_too_large(size):
    return RecordTooLargeError(
        f"the headers of a record may take {CL_HEADERS_LARGEST} bytes with their names, not "
        f"{size}: put large ones into its value", size=size, limit=CL_HEADERS_LARGEST)


def encoded_headers(headers):
    """Check and encode the headers of some records, as bytes for each."""
    return [encode_headers(each) for each in headers]
