"""One process's handle on a log: state, commits, flushes, and everything that appends."""

import os
import threading
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

from commitlog._kernel.failure import failure
from commitlog._kernel.kernel cimport (
    CL_E_BUSY, CL_E_CLOSED, CL_E_CONFLICT, CL_E_CYCLE, CL_E_DAMAGE, CL_E_FAILED, CL_E_FORKED,
    CL_E_GROW, CL_E_INTERRUPTED, CL_E_LAG, CL_E_READ_ONLY, CL_E_ROLL, 
    CL_E_TIMEOUT, CL_E_TOO_LARGE, CL_E_UNCOUNTED, CL_E_UNRESOLVED, CL_FRAME_EXTENDED,
    CL_FRAME_HEADER, CL_FRAME_LIMIT, CL_HISTOGRAM_BUCKETS, CL_KEYLEN_NONE, CL_NO_SLOT_FDS, CL_OK,
    CL_SEGMENT_CURRENT, CL_SEGMENT_HEADER, CL_SEGMENT_LARGEST, CL_SEGMENT_SMALLEST, CL_UUID_SIZE,
    cl_append_expected, cl_append_records_expected, cl_append_marked, 
    cl_checkpoint_write, cl_claim, cl_claim_hold, cl_claim_publish, cl_claim_release,
    cl_clock_monotonic_ns, cl_commit, cl_commit_loop, cl_condition, cl_counted_set, cl_creation_end,
    cl_creation_try, cl_flush, cl_flush_ask, cl_flush_loop, cl_flush_pass_on, cl_frame_aligned,
    cl_futex_raise, cl_futex_wait, cl_histogram, cl_histogram_above, cl_histogram_add,
    cl_histogram_upto, cl_input_extended, cl_input_length, cl_load, cl_load32, cl_log_after_fork,
    cl_log_allocated, cl_log_appended, cl_log_clear, cl_log_fail, cl_log_init, cl_log_pass_commits,
    cl_log_pooled, cl_log_position, cl_log_stop, cl_log_tail, cl_log_upward, cl_mark,
    cl_native_init, cl_native_pause, cl_native_resume, cl_native_writer, cl_owner, cl_pace,
    cl_raise, cl_record_input, cl_rows, cl_segment, cl_sleep_ns, cl_sleeper_announce,
    cl_slot_attach, cl_slot_detach, cl_slot_fds, cl_store, cl_table_acquire, cl_table_forget,
    cl_table_trim, cl_tail_number, cl_tail_offset, cl_tail_pack, cl_writer_abandon,
    cl_writer_append, cl_writer_append_records, cl_writer_append_rows, cl_writer_append_value,
    cl_writer_claim, cl_writer_clear, cl_writer_close_segment, cl_writer_init, cl_writer_limit,
    cl_writer_open_segment, cl_writer_roll, cl_writer_roll_ahead,
    cl_writer_rolls_from, cl_writer_set_largest,
)
from commitlog._kernel.memory cimport Cursors, Memory
from commitlog._kernel.segments cimport Segment
from commitlog.errors import (
    AppenderInUseError, ClaimError, CommitLogError, ConflictError, RecordTooLargeError,
    RecordTypeError, SequenceError, TailerLagError,
)

_get_ident = threading.get_ident

include "core.pxi"
include "waiting.pxi"
include "committer.pxi"
include "arguments.pxi"
include "writer.pxi"
include "condition.pxi"
include "claim.pxi"
include "record_list.pxi"
include "row_columns.pxi"
include "appender.pxi"
include "log_methods.pxi"
