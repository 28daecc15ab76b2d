"""Messages, and the bus's hot paths."""

import datetime
import reprlib
import types
import typing

import numpy

from cpython.buffer cimport (
    Py_buffer, PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_FillInfo,
    PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_CheckExact, PyByteArray_GET_SIZE
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.datetime cimport (
    import_datetime, PyDateTime_Check, timedelta_days, timedelta_microseconds, timedelta_new,
    timedelta_seconds,
)
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AsDouble, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLong, PyLong_AsUnsignedLongLong, PyLong_CheckExact
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from cpython.type cimport PyType_Check
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.math cimport isfinite
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy, memset

from commitlog._kernel.engine cimport LogMethods, NOT_APPENDED, type_of, Writer
from commitlog._kernel.kernel cimport *
from commitlog._kernel.readers cimport Cursor, Patience, patience_of, ReadMethods, wait_for
from commitlog.errors import (
    ClaimError, ClosedError, InvalidOptionError, MessageError, MessageValueError, PositionError,
    RecordTooLargeError, RecordTypeError,
)


cdef extern from "Python.h":
    int PyContextVar_Get(object var, PyObject *default, PyObject **value) except -1


include "message.pxi"
include "field.pxi"
include "object_field.pxi"
include "message_writer.pxi"
include "message_reader.pxi"
include "message_screen.pxi"
include "topic_writer.pxi"
include "lengths.pxi"
