"""The best append that Python alone has: into a mapped file, without a log around it."""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from zlib import crc32

from commitlog.extension import frame_size
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

_HEADER = frame_size(0)  # of a record without a key
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, which the mmap module does not name


def measure(workspace: Workspace, case: Case) -> Sample:
    """Append in bursts; nothing rolls, nothing is flushed, no process reads."""
    settings, value = workspace.settings, value_of(case.value_size)
    count = max(1, settings.burst_bytes // frame_size(case.value_size))
    size = (count + 1) * frame_size(case.value_size)
    clock = time.perf_counter_ns
    with workspace.path(size) as path, Meter(case.value_size) as meter:
        mapping = _mapping(path, size)
        try:
            for _ in range(max(1, settings.append_bytes // settings.burst_bytes)):
                append = _appender(mapping)
                began = clock()
                for _ in repeat(None, count):
                    append(value)
                meter.note(clock() - began, count)
        finally:
            mapping.close()
    return meter.sample


def _mapping(path: Path, size: int) -> mmap.mmap:
    """Return a new file, allocated and pre-faulted whole: the best start that there is."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        mapping = mmap.mmap(fd, size)
    finally:
        os.close(fd)
    try:
        mapping.madvise(_POPULATE_WRITE)
    except OSError:  # Linux before 5.14
        for offset in range(0, size, mmap.PAGESIZE):
            mapping[offset] = 0
    return mapping


def _appender(mapping: mmap.mmap) -> Callable[[bytes], int]:
    """Return an append: length, CRC, no timestamp, value."""
    pack_into, position = struct.Struct("<IIQ").pack_into, 0

    def append(value: bytes) -> int:
        nonlocal position
        start, body = position, position + _HEADER
        end = body + len(value)
        mapping[body:end] = value
        pack_into(mapping, start, end - start, crc32(value), 0)
        position = (end + 7) & ~7
        return start

    return append
