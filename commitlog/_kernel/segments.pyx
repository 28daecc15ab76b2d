"""Open segments, segment files, sparse indexes, and frames outside of a log."""

import os

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from libc.errno cimport EEXIST, errno
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from commitlog._kernel.failure import failure
from commitlog._kernel.kernel cimport (
    CL_CELL_SIZE, CL_E_ABSENT, CL_E_BUSY, CL_E_DAMAGE, CL_E_FULL, CL_E_ROLLED_BACK, CL_E_TOO_LARGE,
    CL_FORMAT_MAJOR, CL_FORMAT_MINOR, CL_FRAME_ALIGN, CL_FRAME_EXTENDED, CL_FRAME_HEADER,
    CL_FRAME_LIMIT, CL_HEADER_IDENTITY_CRC, CL_HEADER_OPENED_AT, CL_HEADER_OPENED_CRC,
    CL_HEADER_SEAL_AT, CL_HEADER_SEAL_CRC, CL_KEYLEN_NONE, CL_OK, CL_PAGE_SMALLEST,
    CL_SEGMENT_HEADER, CL_SEGMENT_LARGEST, CL_SEGMENT_MAGIC, CL_SEGMENT_SMALLEST, CL_UUID_SIZE,
    CL_WORD_BATCH, CL_WORD_CLAIMED, CL_WORD_EXT, CL_WORD_LENGTH, CL_WORD_SKIP, cl_cell_high,
    cl_cell_word, cl_crc32c, cl_crc32c_seed, cl_frame_cursor, cl_frame_cursor_at, cl_frame_find,
    cl_frame_largest, cl_frame_next, cl_frame_read, cl_frames_decode, cl_header_check,
    cl_header_identity, cl_header_opened, cl_header_opened_crc, cl_header_opened_read,
    cl_header_seal, cl_header_seal_crc, cl_index, cl_index_entry, cl_index_room, cl_marked,
    cl_marks_read, cl_owner_generation, cl_owner_slot, cl_record, cl_record_read, cl_rows_out,
    cl_scan, cl_segment, cl_segment_certain_end, cl_segment_flush, cl_segment_hold,
    cl_segment_landing, cl_segment_mark_gap, cl_segment_measure, cl_segment_nonzero,
    cl_segment_open, cl_segment_prefault, cl_segment_release, cl_segment_resume, cl_segment_scan,
    cl_segment_seal, cl_segment_sealed, cl_segment_take_over, cl_skip_cell, cl_stage_lay,
    cl_stage_rows, cl_tally,
)
from commitlog._kernel.memory cimport Memory
from commitlog.errors import ClosedError, RecordTooLargeError

include "segment.pxi"
include "segment_view.pxi"
include "segment_file.pxi"
include "sparse_index.pxi"
include "stage.pxi"
include "frame_decoder.pxi"
