"""Memory outside the heap, and what processes share: the `cursors` file, checkpoints."""

import os

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport errno
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from commitlog._kernel.kernel cimport *

include "memory.pxi"
include "cursors.pxi"
include "checkpoint.pxi"
