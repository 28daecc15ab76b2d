# The sizes of the messages of a list: a hot path of lists of small messages.


def lengths_of(items):
    """Return how many bytes the items of a list have together, and how many the longest one has.

    None has no bytes.

    Raises
    ------
    TypeError
        An item has no length.
    """
    cdef Py_ssize_t length, total = 0, longest = 0
    for item in items:
        if item is None:
            continue
        length = PyBytes_GET_SIZE(item) if PyBytes_CheckExact(item) else len(item)
        total += length
        longest = max(longest, length)
    return total, longest
