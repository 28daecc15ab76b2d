# Fields whose values are objects: enums, times, strings, bytes with a length, arrays.

import_datetime()

cdef object EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# Signed, and 64 bits wide, as the times are.
cdef int64_t DAY_US = 86_400_000_000
cdef int64_t SECOND_US = 1_000_000
cdef int64_t LARGEST_US = 9_223_372_036_854_775  # its nanoseconds fit 64 bits

cdef enum:
    COUNT_BYTES = 2


cdef class EnumField(Field):
    """Read and write a member of an enum, stored as its number.

    Parameters
    ----------
    owner, name, kind, offset, length
        As for `Field`, of the number.
    members : type of enum.Enum
        The enum.

    Raises
    ------
    MessageError
        The number of a member does not fit.
    """
    cdef readonly object members
    cdef dict of_number

    def __init__(self, owner, name, kind, offset, length, members):
        cdef uint64_t number
        super().__init__(owner, name, kind, offset, length)
        self.kind = f"{kind} {members.__name__}"
        self.members = members
        self.of_number = {member._value_: member for member in members}
        for member in members:
            try:
                Field.store(self, <uint8_t *>&number, member._value_)
            except (MessageValueError, RecordTypeError) as error:
                raise MessageError(
                    f"{members.__name__}.{member._name_} cannot be stored: {error.message}"
                ) from None

    cdef object load(self, const uint8_t *at):
        number = Field.load(self, at)
        member = self.of_number.get(number)
        if member is not None:
            return member
        try:
            return self.members(number)  # several flags at once
        except ValueError:
            raise MessageValueError(
                f"{self.label}: {number} is not a {self.members.__name__}; add the member, or read "
                "the message as bytes"
            ) from None

    cdef int store(self, uint8_t *at, object value) except -1:
        if not isinstance(value, self.members):
            raise self.mistyped(value, f"a {self.members.__name__}")
        return Field.store(self, at, value._value_)


cdef class DatetimeField(Field):
    """Read and write an aware datetime, stored as nanoseconds since 1970.

    Parameters
    ----------
    owner, name, offset
        As for `Field`.
    """

    def __init__(self, owner, name, offset):
        super().__init__(owner, name, "int64", offset, 8)
        self.kind = "datetime"

    cdef object load(self, const uint8_t *at):
        cdef int64_t number
        cdef int64_t days
        memcpy(&number, at, 8)
        # Rounded down, as `Record.timestamp` is.
        number = number // 1000 - (number % 1000 < 0)
        days = number // DAY_US - (number % DAY_US < 0)
        number -= days * DAY_US
        return EPOCH + timedelta_new(
            <int>days, <int>(number // SECOND_US), <int>(number % SECOND_US)
        )

    cdef int store(self, uint8_t *at, object value) except -1:
        cdef int64_t number
        if not PyDateTime_Check(value):
            raise self.mistyped(value, "a datetime")
        try:
            since = value - EPOCH
        except TypeError:
            raise self.refused(
                value, "has no time zone", "give an aware one, such as datetime.now(UTC)"
            ) from None
        number = (
            timedelta_days(since) * DAY_US
            + timedelta_seconds(since) * SECOND_US
            + timedelta_microseconds(since)
        )
        if not -LARGEST_US <= number <= LARGEST_US:
            raise self.refused(value, "is out of range", "give one from 1678 to 2261")
        number *= 1000
        memcpy(at, &number, 8)
        return 0


cdef class TextField(Field):
    """Read and write a string, stored as UTF-8 and filled with zeros.

    Parameters
    ----------
    owner, name, offset, length
        As for `Field`.
    """

    def __init__(self, owner, name, offset, length):
        super().__init__(owner, name, "bytes", offset, length)
        self.kind = "str"

    cdef object load(self, const uint8_t *at):
        cdef const uint8_t *end = <const uint8_t *>memchr(at, 0, self.length)
        cdef Py_ssize_t length = self.length if end == NULL else end - at
        try:
            return PyUnicode_DecodeUTF8(<const char *>at, length, NULL)
        except UnicodeDecodeError as error:
            raise MessageValueError(
                f"{self.label}: {SHORT.repr(error.object)} is not UTF-8; read the message as "
                "bytes"
            ) from None

    cdef int store(self, uint8_t *at, object value) except -1:
        cdef bytes encoded
        if not isinstance(value, str):
            raise self.mistyped(value, "a str")
        try:
            encoded = PyUnicode_AsUTF8String(value)
        except UnicodeEncodeError:
            raise self.refused(
                value, "cannot be encoded as UTF-8", "remove its surrogates"
            ) from None
        if b"\0" in encoded:
            raise self.refused(
                value, "contains a NUL character, which would end it", "store it as bytes"
            )
        if PyBytes_GET_SIZE(encoded) > self.length:
            raise self.refused(
                value, f"has {len(encoded)} bytes of UTF-8, more than the field's {self.length}"
            )
        return Field.store(self, at, encoded)


cdef class SizedBytesField(Field):
    """Read and write bytes of any length up to a largest, stored after their length as a uint16.

    Parameters
    ----------
    owner, name, offset
        As for `Field`.
    longest : int
        The largest length, from 1 to 65535.
    """
    cdef Field content

    def __init__(self, owner, name, offset, longest):
        super().__init__(owner, name, "bytes", offset, COUNT_BYTES + longest)
        self.kind = f"bytes up to {longest}"
        self.content = Field(owner, name, "bytes", 0, longest)

    cdef object load(self, const uint8_t *at):
        cdef uint16_t count
        memcpy(&count, at, COUNT_BYTES)
        if count > self.content.length:
            raise MessageValueError(
                f"{self.label}: the stored length is {count}, more than the field's "
                f"{self.content.length} bytes; "
                "read the message as bytes"
            )
        return PyBytes_FromStringAndSize(<const char *>at + COUNT_BYTES, count)

    cdef int store(self, uint8_t *at, object value) except -1:
        cdef bytes octets = self.content.bytes_of(value)
        cdef uint16_t count = <uint16_t>PyBytes_GET_SIZE(octets)
        memcpy(at, &count, COUNT_BYTES)
        return self.content.store(at + COUNT_BYTES, octets)


cdef class ArrayField(Field):
    """Read and write a tuple of numbers.

    Parameters
    ----------
    owner, name, kind, offset
        As for `Field`; the kind is that of an item.
    count : int
        How many items.
    """
    cdef Field item
    cdef uint32_t count

    def __init__(self, owner, name, kind, offset, count):
        self.item = Field(owner, name, kind, 0, KINDS[kind][1])
        self.count = count
        super().__init__(owner, name, "bytes", offset, count * self.item.length)
        self.kind = f"{kind}[{count}]"

    cdef object load(self, const uint8_t *at):
        cdef uint32_t each
        return tuple([self.item.load(at + each * self.item.length) for each in range(self.count)])

    cdef int store(self, uint8_t *at, object value) except -1:
        cdef bytes staged  # so that a wrong item leaves the message as it was
        cdef Py_ssize_t each
        if isinstance(value, (str, bytes)):
            raise self.mistyped(value, f"{self.count} items")
        try:
            items = tuple(value)
        except TypeError:
            raise self.mistyped(value, f"{self.count} items") from None
        if len(items) != self.count:
            raise self.refused(
                value, f"has {len(items)} items, not {self.count}", f"give {self.count} items"
            )
        staged = PyBytes_FromStringAndSize(NULL, self.length)
        for each in range(len(items)):
            self.item.store(
                <uint8_t *>PyBytes_AS_STRING(staged) + each * self.item.length, items[each]
            )
        memcpy(at, PyBytes_AS_STRING(staged), self.length)
        return 0
