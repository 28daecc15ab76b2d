"""Memory outside the heap, and what processes share: the `cursors` file, checkpoints."""

import os

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport errno
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from commitlog._kernel.kernel cimport (
    CL_CHECKPOINT_SIZE, CL_CURSORS_MAGIC, CL_CURSORS_SIZE, CL_CURSORS_SLOTS, CL_CURSORS_VERSION,
    CL_E_TRUNCATED, CL_MODE_MAPPED, CL_MODE_POOLED, CL_OK, CL_SLOT_LOCK_AT, CL_STATE_NONE,
    CL_STATE_READY, CL_STATE_RECOVERING, CL_UUID_SIZE, cl_add, cl_checkpoint, cl_checkpoint_read,
    cl_checkpoint_write, cl_crc32c_name, cl_cursors, cl_futex_raise, cl_line, cl_load, cl_log,
    cl_owner_slot, cl_raise, cl_slot, cl_slot_alive, cl_slot_fds, cl_store, cl_tail_number,
    cl_tail_offset, cl_tail_pack,
)

include "memory.pxi"
include "cursors.pxi"
include "checkpoint.pxi"
