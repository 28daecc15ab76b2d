"""Open segments, segment files, sparse indexes, and frames outside of a log."""

import os

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EEXIST, ENOENT, errno
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from commitlog._kernel.failure import failure
from commitlog._kernel.kernel cimport *
from commitlog._kernel.memory cimport Memory, uuid_of
from commitlog.errors import ClosedError, RecordTooLargeError

include "decoded_headers.pxi"
include "segment.pxi"
include "segment_view.pxi"
include "frame_fields.pxi"
include "frame_copies.pxi"
include "segment_file.pxi"
include "sparse_index.pxi"
include "stage.pxi"
include "frame_decoder.pxi"
