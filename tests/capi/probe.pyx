# cython: language_level=3str
"""Every function of the C API, called without the interpreter's lock."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from commitlog.capi cimport (
    COMMITLOG_DROPPED, COMMITLOG_END, COMMITLOG_ERROR, COMMITLOG_NO_KEY, commitlog_api,
    commitlog_appender, commitlog_claim, commitlog_import, commitlog_input, commitlog_reader,
    commitlog_record,
)

cdef const commitlog_api *api = commitlog_import()


cdef commitlog_input input_of(bytes value, key, type, timestamp_ns):
    cdef commitlog_input made
    made.value = <const char *>value
    made.value_length = len(value)
    made.key = NULL
    made.key_length = COMMITLOG_NO_KEY
    if key is not None:
        made.key = <const char *>(<bytes>key)
        made.key_length = len(key)
    made.type = type
    made.timestamp_ns = timestamp_ns
    return made


cdef class Appender:
    cdef commitlog_appender *native
    cdef commitlog_claim room
    cdef object key  # of the open claim

    def __init__(self, log):
        self.native = api.appender_open(log)

    def close(self):
        if self.native != NULL:
            api.appender_close(self.native)
            self.native = NULL

    def __dealloc__(self):
        self.close()

    cdef int check(self, int code) except -1:
        if code == COMMITLOG_ERROR:
            api.appender_raise(self.native)
        return code

    def append(self, bytes value, key=None, type=0, timestamp_ns=-1):
        """The position, or None where the record is dropped."""
        cdef commitlog_input given = input_of(value, key, type, timestamp_ns)
        cdef uint64_t position = 0
        cdef int code
        with nogil:
            code = api.append(self.native, &given, &position)
        return None if self.check(code) == COMMITLOG_DROPPED else position

    def append_named(self, bytes value, headers, key=None, type=0, timestamp_ns=-1):
        """As `append`, with headers."""
        cdef commitlog_input given = input_of(value, key, type, timestamp_ns)
        cdef uint64_t position = 0
        cdef int code = api.append_named(self.native, &given, headers, &position)
        return None if self.check(code) == COMMITLOG_DROPPED else position

    def append_numbers(self, uint64_t first, uint64_t count):
        """Append so many numbers in one go; how many were appended before an error, and it."""
        cdef commitlog_input given
        cdef uint64_t position, number = first
        cdef int code = 0
        given.value = &number
        given.value_length = sizeof(number)
        given.key_length = COMMITLOG_NO_KEY
        given.type = 0
        given.timestamp_ns = -1
        with nogil:
            while number < first + count:
                code = api.append(self.native, &given, &position)
                if code != 0:
                    break
                number += 1
        try:
            self.check(code)
        except Exception as error:
            return number - first, error
        return number - first, None

    def claim(self, size, key=None, type=0):
        cdef commitlog_input given = input_of(b"", key, type, -1)
        cdef int code
        self.key = key
        given.value_length = size
        with nogil:
            code = api.claim(self.native, &given, &self.room)
        return None if self.check(code) == COMMITLOG_DROPPED else self.room.position

    def publish(self, bytes value, size=None):
        cdef unsigned int length = len(value) if size is None else size
        cdef int code
        if len(value) <= self.room.size:
            memcpy(self.room.value, <const char *>value, len(value))
        with nogil:
            code = api.publish(self.native, &self.room, length)
        self.check(code)

    def abandon(self):
        with nogil:
            api.abandon(self.native, &self.room)


cdef class Reader:
    cdef commitlog_reader *native
    cdef commitlog_record last

    def __init__(self, tailer):
        self.native = api.reader_open(tailer)

    def close(self):
        if self.native != NULL:
            api.reader_close(self.native)
            self.native = NULL

    def __dealloc__(self):
        self.close()

    def next(self):
        """(position, timestamp_ns, type, key, value), or None at the end."""
        cdef commitlog_record record
        cdef int code
        with nogil:
            code = api.next(self.native, &record)
        self.last = record
        if code == COMMITLOG_ERROR:
            api.reader_raise(self.native)
        if code == COMMITLOG_END:
            return None
        key = None
        if record.key != NULL:
            key = PyBytes_FromStringAndSize(<const char *>record.key, record.key_length)
        return (
            record.position, record.timestamp_ns, record.type, key,
            PyBytes_FromStringAndSize(<const char *>record.value, record.value_length),
        )

    def headers(self):
        """Of the record that was read last."""
        return api.reader_headers(self.native, &self.last)

    def wait(self, double seconds):
        cdef long long timeout_ns = <long long>(seconds * 1e9)
        cdef int code
        with nogil:
            code = api.wait(self.native, timeout_ns)
        if code == COMMITLOG_ERROR:
            api.reader_raise(self.native)
        return code != COMMITLOG_END
