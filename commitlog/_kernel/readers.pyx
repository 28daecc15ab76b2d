"""Cursors and loops; records, columns, and a named tailer's page; the C API."""

import os
from inspect import Signature
from typing import Literal

import numpy

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from commitlog.capi cimport (
    COMMITLOG_API_CAPSULE, COMMITLOG_API_VERSION, commitlog_api, commitlog_appender,
    commitlog_claim, commitlog_input, commitlog_reader, commitlog_record,
)
from commitlog._kernel.engine cimport (
    Core, LogMethods, REFUSED_CLOSED, Writer, append_word, nanoseconds,
)
from commitlog._kernel.kernel cimport *
from commitlog._kernel.memory cimport (
    cl_memory_map_descriptor, cl_memory_part, cl_memory_unmap, uuid_of,
)
from commitlog._kernel.segments cimport Segment, SparseIndex, decode_headers
from commitlog.base.moment import utc_datetime
from commitlog.base.units import parse_duration
from commitlog.errors.advice import with_advice
from commitlog.errors import (
    ClaimError, ClosedError, CommitLogError, CorruptRecordError, CorruptSegmentError, ForkedError,
    IOFailureError, InvalidOptionError, SequenceError, InUseError,
)

include "columns.pxi"
include "finder.pxi"
include "record_headers.pxi"
include "record.pxi"
include "tailer_page.pxi"
include "selection.pxi"
include "cursor.pxi"
include "key_search.pxi"
include "cursor_wait.pxi"
include "cursor_columns.pxi"
include "read_methods.pxi"
include "capi.pxi"
