# Which messages may be read back as something else: a hot path of topics.

cdef enum:
    DEEPEST_SCREENED = 100

cdef object UTC = datetime.timezone.utc


cdef bint has_null(const char *text, Py_ssize_t length) noexcept:
    """Return whether a text has the word ``null``, found by its rarest letter."""
    cdef const char *end = text + length - 2  # of the places of the letter
    cdef const char *at = text + 1
    while at < end:
        at = <const char *>memchr(at, c'u', end - at)
        if at == NULL:
            return False
        if memcmp(at - 1, b"null", 4) == 0:
            return True
        at += 1
    return False


cdef class MessageScreen:
    """Find the messages of a class that a codec may not give back, and decode them for a check.

    Parameters
    ----------
    check : callable
        Takes a message and its value. Raises ValueError if they differ.
    walks : bool
        Look at the parts of a message first, and check only one that has a doubtful part.
    only_null : bool
        Look only at messages whose value has the word ``null``, which JSON writes for NaN.
    takes_any_float : bool
        The codec has numbers that are not finite.
    is_open : bool
        A field takes any value, and its value is read as plain data.
    classes : dict
        The names of the fields of each class that has fields and that the schema names; None for a
        named tuple.
    leaves : frozenset
        The classes of other values that a field may have and that are read back as they are.
    names : frozenset or None
        The keys that a message may have, if it is a dict.
    """
    cdef object check
    cdef bint walks, only_null, takes_any_float, is_open
    cdef dict classes
    cdef frozenset leaves, names

    def __init__(
        self, check, *, bint walks, bint only_null, bint takes_any_float, bint is_open,
        dict classes not None, frozenset leaves not None, frozenset names=None,
    ):
        self.check = check
        self.walks = walks
        self.only_null = only_null
        self.takes_any_float = takes_any_float
        self.is_open = is_open
        self.classes = classes
        self.leaves = leaves
        self.names = names

    def screen(self, message, bytes value not None):
        """Raise ValueError if a message would be read back as something else."""
        self.pass_message(message, value)

    cdef int pass_message(self, message, bytes value) except -1:
        if self.only_null and not has_null(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)):
            return 0
        if not self.walks or not self.is_plain_message(message):
            self.check(message, value)
        return 0

    cdef bint is_plain_message(self, message) except -1:
        kind = type(message)
        if kind is dict:
            if self.names is not None and not (<dict>message).keys() <= self.names:
                return False
            return self.is_plain_dict(<dict>message, 0)
        if kind is tuple:  # the arguments of a call
            return self.are_plain(message, 0)
        if kind in self.classes:
            return self.are_plain_fields(message, self.classes[kind], 0)
        return self.is_plain(message, 0)

    cdef bint is_plain(self, value, int depth) except -1:
        kind = type(value)
        if value is None or kind is str or kind is int or kind is bool:
            return True
        if kind is float:
            return self.takes_any_float or isfinite(<double>value)
        if depth > DEEPEST_SCREENED:
            return False
        if kind is list:
            return self.are_plain(value, depth + 1)
        if kind is dict:
            return self.is_plain_dict(<dict>value, depth + 1)
        if self.is_open:
            return False
        if kind is tuple or kind is set or kind is frozenset:
            return self.are_plain(value, depth + 1)
        if kind in self.classes:
            return self.are_plain_fields(value, self.classes[kind], depth + 1)
        if kind is datetime.datetime or kind is datetime.time:
            return self.is_whole_zone(value)
        return kind in self.leaves

    cdef bint are_plain(self, values, int depth) except -1:
        for each in values:
            if not self.is_plain(each, depth):
                return False
        return True

    cdef bint are_plain_fields(self, value, names, int depth) except -1:
        if names is None:
            return self.are_plain(value, depth)
        for name in <tuple>names:
            if not self.is_plain(getattr(value, name), depth):
                return False
        return True

    cdef bint is_plain_dict(self, dict values, int depth) except -1:
        for name, each in values.items():
            kind = type(name)
            if kind is not str:
                if self.is_open or not (kind is int or kind in self.leaves):
                    return False
            if not self.is_plain(each, depth):
                return False
        return True

    cdef bint is_whole_zone(self, value) except -1:
        """Return whether the text of a time has its zone, which is in minutes."""
        zone = value.tzinfo
        if zone is None or zone is UTC:
            return True
        offset = value.utcoffset()
        return offset is None or (
            timedelta_seconds(offset) % 60 == 0 and timedelta_microseconds(offset) == 0
        )
