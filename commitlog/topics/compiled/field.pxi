# Fields of numbers and bytes: descriptors over the bytes of a message.

cdef enum:
    KIND_BOOL
    KIND_INT8
    KIND_INT16
    KIND_INT32
    KIND_INT64
    KIND_UINT8
    KIND_UINT16
    KIND_UINT32
    KIND_UINT64
    KIND_FLOAT32
    KIND_FLOAT64
    KIND_BYTES

# What a field can be, by name, each with its size in bytes; 0: as many as the field says.
KINDS = {
    "bool": (KIND_BOOL, 1),
    "int8": (KIND_INT8, 1), "int16": (KIND_INT16, 2),
    "int32": (KIND_INT32, 4), "int64": (KIND_INT64, 8),
    "uint8": (KIND_UINT8, 1), "uint16": (KIND_UINT16, 2),
    "uint32": (KIND_UINT32, 4), "uint64": (KIND_UINT64, 8),
    "float32": (KIND_FLOAT32, 4), "float64": (KIND_FLOAT64, 8), "bytes": (KIND_BYTES, 0),
}


cdef object SHORT = reprlib.Repr()  # of values in errors
SHORT.maxother = 100  # an aware datetime


cdef class Field:
    """Read and write one field in the bytes of a message, little-endian.

    Parameters
    ----------
    owner : str
        The name of the message class, for errors.
    name : str
        The name of the field.
    kind : str
        One of `KINDS`.
    offset : int
        Bytes from the message's start.
    length : int
        Bytes; of a number its kind's own.
    """
    cdef readonly str name
    cdef readonly uint32_t offset
    cdef readonly uint32_t length
    cdef readonly str kind
    cdef str label      # "Order.price", for errors
    cdef int code
    cdef int64_t least  # of whole numbers
    cdef uint64_t largest

    def __init__(
        self,
        str owner not None,
        str name not None,
        str kind not None,
        uint32_t offset,
        uint32_t length,
    ):
        self.code, width = KINDS[kind]
        if length == 0 or width not in (0, length):
            raise ValueError(f"no field of kind {kind} has {length} bytes")
        self.name = name
        self.label = f"{owner}.{name}"
        self.kind = kind
        self.offset = offset
        self.length = length
        bits = 8 * int(length)
        if KIND_INT8 <= self.code <= KIND_INT64:
            self.least = -(1 << (bits - 1))
            self.largest = (1 << (bits - 1)) - 1
        elif KIND_UINT8 <= self.code <= KIND_UINT64:
            self.largest = (1 << bits) - 1

    def __get__(self, instance, owner):
        if instance is None:
            return self
        return self.load(self.address(instance))

    def __set__(self, instance, value):
        cdef bytearray converted
        if PyLong_CheckExact(value) or PyFloat_CheckExact(value) or PyBytes_CheckExact(value):
            self.store(self.address(instance), value)
            return
        # Converting any other object runs Python code, which may end the claim that the message is
        # in: the address is taken afterwards.
        converted = bytearray(self.length)
        self.store(<uint8_t *>PyByteArray_AS_STRING(converted), value)
        memcpy(self.address(instance), PyByteArray_AS_STRING(converted), self.length)

    cdef inline uint8_t *address(self, instance) except NULL:
        if not isinstance(instance, MessageBytes):
            raise TypeError(
                f"{self.label} is a field of messages, not of {type(instance).__name__}"
            )
        cdef MessageBytes message = <MessageBytes>instance
        if <uint64_t>self.offset + self.length > message.shape.size:
            raise TypeError(f"{self.label} is not a field of {message.shape.name}")
        return message.data + self.offset

    cdef object load(self, const uint8_t *at):
        cdef int8_t octet
        cdef int16_t short_number
        cdef uint16_t short_count
        cdef int32_t number
        cdef uint32_t count
        cdef int64_t long_number
        cdef uint64_t long_count
        cdef float single
        cdef double real
        if self.code == KIND_INT32:
            memcpy(&number, at, 4)
            return number
        if self.code == KIND_INT64:
            memcpy(&long_number, at, 8)
            return long_number
        if self.code == KIND_FLOAT64:
            memcpy(&real, at, 8)
            return real
        if self.code == KIND_BYTES:
            return PyBytes_FromStringAndSize(<const char *>at, self.length)
        if self.code == KIND_UINT32:
            memcpy(&count, at, 4)
            return count
        if self.code == KIND_UINT64:
            memcpy(&long_count, at, 8)
            return long_count
        if self.code == KIND_INT16:
            memcpy(&short_number, at, 2)
            return short_number
        if self.code == KIND_UINT16:
            memcpy(&short_count, at, 2)
            return short_count
        if self.code == KIND_INT8:
            memcpy(&octet, at, 1)
            return octet
        if self.code == KIND_UINT8:
            return at[0]
        if self.code == KIND_FLOAT32:
            memcpy(&single, at, 4)
            return <double>single
        return at[0] != 0

    cdef int store(self, uint8_t *at, object value) except -1:
        cdef int64_t number
        cdef uint64_t count
        cdef double real
        cdef float single
        cdef bytes octets
        if self.code == KIND_BYTES:
            octets = self.bytes_of(value)
            memcpy(at, PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))
            memset(at + PyBytes_GET_SIZE(octets), 0, self.length - PyBytes_GET_SIZE(octets))
        elif self.code == KIND_FLOAT64:
            real = self.real_of(value)
            memcpy(at, &real, 8)
        elif self.code == KIND_FLOAT32:
            real = self.real_of(value)
            single = <float>real
            if isfinite(real) and not isfinite(single):
                raise self.refused(value, "is larger than a float32 can be")
            memcpy(at, &single, 4)
        elif self.code == KIND_BOOL:
            if value is not True and value is not False and not isinstance(value, numpy.bool_):
                raise self.mistyped(value, "True or False")
            at[0] = 1 if value else 0
        elif self.code >= KIND_UINT8:
            count = self.count_of(value)
            memcpy(at, &count, self.length)  # the lower bytes are first
        else:
            number = self.number_of(value)
            memcpy(at, &number, self.length)
        return 0

    cdef int64_t number_of(self, object value) except? -1:
        cdef int64_t number
        try:
            number = PyLong_AsLongLong(PyNumber_Index(value))
        except TypeError:
            raise self.mistyped(value, "an int") from None
        except OverflowError:
            raise self.out_of_range(value) from None
        if number < self.least or number > <int64_t>self.largest:
            raise self.out_of_range(value)
        return number

    cdef uint64_t count_of(self, object value) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t count
        try:
            count = PyLong_AsUnsignedLongLong(PyNumber_Index(value))
        except TypeError:
            raise self.mistyped(value, "an int") from None
        except OverflowError:
            raise self.out_of_range(value) from None
        if count > self.largest:
            raise self.out_of_range(value)
        return count

    cdef double real_of(self, object value) except? -1.0:
        try:
            return PyFloat_AsDouble(value)
        except TypeError:
            raise self.mistyped(value, "a float") from None
        except OverflowError:
            raise self.refused(value, "is larger than a float64 can be") from None

    cdef bytes bytes_of(self, object value):
        if isinstance(value, bytes):
            octets = <bytes>value
        elif isinstance(value, (bytearray, memoryview)):
            octets = bytes(value)
        else:
            raise self.mistyped(value, "bytes")
        if PyBytes_GET_SIZE(octets) > self.length:
            raise self.refused(value, f"is longer than the field's {self.length} bytes")
        return octets

    cdef object out_of_range(self, object value):
        return self.refused(value, f"is not in the range {self.least} to {self.largest}")

    cdef object mistyped(self, object value, object wanted):
        return RecordTypeError(f"{self.label} takes {wanted}, not {SHORT.repr(value)}")

    cdef object refused(
        self, object value, object why, object remedy="give one that fits, or declare a wider field"
    ):
        return MessageValueError(f"{self.label}: {SHORT.repr(value)} {why}; {remedy}")
