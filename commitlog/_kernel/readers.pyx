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
    Core, LogMethods, REFUSED_CLOSED, Writer, nanoseconds,
)
from commitlog._kernel.kernel cimport (
    CL_E_ABSENT, CL_E_BUSY, CL_E_CLOSED, CL_E_DAMAGE, CL_E_END, CL_E_FOREIGN, CL_E_FORKED,
    CL_E_FULL, CL_E_OPEN_CLAIM, CL_E_ROLL, CL_E_TRUNCATED, CL_FRAME_ALIGN, CL_FRAME_HEADER,
    CL_IDLE_BACKOFF, CL_IDLE_BLOCK, CL_IDLE_SPIN, CL_IDLE_YIELD, CL_NATIVE_DROPPED, CL_NATIVE_END,
    CL_NATIVE_ERROR, CL_OK, CL_SEGMENT_HEADER, CL_TAILER_DROPPED_AT, CL_TAILER_MAGIC,
    CL_TAILER_SIZE, CL_UUID_SIZE, CL_VIEW_INLINE, cl_add, cl_backward_scan_batch, cl_cursors,
    cl_backward_scan_fill, cl_backward_scan_pass_damage, cl_backward_scan_previous, cl_batch,
    cl_clock_coarse_ns, cl_clock_monotonic_ns, cl_idle, cl_index, cl_index_below, cl_index_extend,
    cl_index_find, cl_index_ordinal, cl_index_since, cl_load, cl_log_resume, cl_log_upward,
    cl_native_abandon, cl_native_append, cl_native_next, cl_native_publish, cl_native_reader,
    cl_native_reader_init, cl_native_reserve, cl_native_wait, cl_native_writer, cl_reader,
    cl_reader_batch, cl_reader_enter, cl_reader_init, cl_reader_leave, cl_reader_news,
    cl_reader_next, cl_reader_next_short, cl_reader_plan, cl_reader_spin, cl_reader_step_over,
    cl_reader_wait, cl_record, cl_record_input, cl_segment,
    cl_segment_release, cl_sleep_ns, cl_tailer_forks, cl_tailer_mark,
    cl_tailer_read_saved, cl_tailer_read_terms, cl_tailer_save, cl_tailer_save_plainly,
    cl_tailer_saved, cl_tailer_terms, cl_tailer_write_terms, cl_view,
)
from commitlog._kernel.memory cimport cl_memory_map_descriptor, cl_memory_part, cl_memory_unmap
from commitlog._kernel.segments cimport Segment, SparseIndex
from commitlog.base.moment import utc_datetime
from commitlog.base.units import parse_duration
from commitlog.errors import (
    ClaimError, ClosedError, CommitLogError, CorruptRecordError, ForkedError, IOFailureError,
    InvalidOptionError, SequenceError, TailerInUseError,
)

include "columns.pxi"
include "finder.pxi"
include "record.pxi"
include "tailer_page.pxi"
include "cursor.pxi"
include "key_search.pxi"
include "cursor_wait.pxi"
include "cursor_columns.pxi"
include "read_methods.pxi"
include "capi.pxi"
