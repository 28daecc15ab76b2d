"""One process's handle on a log: state, commits, flushes, and everything that appends."""

import os
import sys
import threading
from collections.abc import Mapping
from inspect import Signature

import numpy

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBuffer_FillInfo, PyBuffer_Release, PyObject_CheckBuffer,
    PyObject_GetBuffer, Py_buffer,
)
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyNumber_Index
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from commitlog._kernel.failure import failure, log_was_cut
from commitlog._kernel.kernel cimport *
from commitlog._kernel.memory cimport Cursors, Memory, uuid_of
from commitlog._kernel.segments cimport Segment, headers_in
from commitlog.errors import (
    InUseError, ClaimError, CommitLogError, ConflictError, InvalidOptionError,
    RecordTooLargeError, RecordTypeError, SequenceError, TailerLagError,
)

_get_ident = threading.get_ident

include "core.pxi"
include "waiting.pxi"
include "committer.pxi"
include "arguments.pxi"
include "writer.pxi"
include "condition.pxi"
include "claim.pxi"
include "headers.pxi"
include "record_list.pxi"
include "placed.pxi"
include "row_columns.pxi"
include "appender.pxi"
include "log_methods.pxi"
