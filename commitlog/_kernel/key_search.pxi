# The search for a record by its key.

cdef uint64_t SIGNALS_EVERY = 4096  # records between two checks for signals


def pass_to_key(Cursor cursor not None, bytes key not None):
    """Read up to the next record with a key; return the position before it, or None."""
    cdef cl_record native
    cdef const char *wanted = key
    cdef size_t length = len(key)
    cdef uint64_t passed = 0
    before = cursor.position
    while cursor.next_record(&native) == CL_OK:
        if (native.key != NULL and native.key_length == length
                and memcmp(native.key, wanted, length) == 0):
            return before
        before = cursor.position
        passed += 1
        if passed % SIGNALS_EVERY == 0:
            PyErr_CheckSignals()
    return None
