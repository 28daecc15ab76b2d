"""The disk without commitlog: plain writes, the flush of one page, and waiting until it is idle."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np

from commitlog.base.polling import attempts
from commitlog.base.units import MIB
from commitlog.extension import frame_size
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Meter, Sample
from commitlog.tools.bench.workspace import Workspace, value_of

PIECE = MIB
SYNC_EVERY = 64 * MIB  # a segment; a flush after each piece would leave the disk idle between them
_MAPPED = 4 * MIB
_IDLE_BYTES = 8 * MIB  # an idle system has about this much to write
_POLL_S = 0.02


def write_plainly(path: Path, total_bytes: int) -> float:
    """Write an allocated file in pieces of 1 MiB, with fdatasync after each 64 MiB; return the
    seconds.
    """
    piece = value_of(PIECE)
    total_bytes = max(PIECE, total_bytes // PIECE * PIECE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, total_bytes)
        began = time.perf_counter()
        for offset in range(0, total_bytes, PIECE):
            os.pwrite(fd, piece, offset)
            if (offset + PIECE) % SYNC_EVERY == 0:
                os.fdatasync(fd)
        os.fdatasync(fd)
        return time.perf_counter() - began
    finally:
        os.close(fd)


def measure_page_msync(workspace: Workspace, case: Case) -> Sample:
    """Write the bytes of a record after those of the last one, and msync their page."""
    value, page, taken = value_of(case.value_size), mmap.PAGESIZE, []
    clock = time.perf_counter_ns
    with workspace.path(_MAPPED) as path, Meter(case.value_size) as meter:
        path.write_bytes(bytes(_MAPPED))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), _MAPPED) as mapping:
            mapping[:] = bytes(_MAPPED)  # so that no page is faulted in while the clock runs
            mapping.flush()
            position, ended = 0, clock()
            deadline = ended + int(workspace.settings.sync_s * 1e9)
            while ended < deadline:
                began = ended
                mapping[position : position + len(value)] = value
                mapping.flush(position & -page, page)
                ended = clock()
                taken.append(ended - began)
                position = (position + frame_size(case.value_size)) % (_MAPPED - page)
            meter.note(sum(taken), len(taken))
    meter.sample.latencies_ns = np.array(taken, np.int64)
    return meter.sample


def settle(directory: Path, limit_s: float) -> float:
    """Write out the file system of `directory`, and wait up to `limit_s` until the system has
    little to write; return the seconds. With 0, do nothing at all.
    """
    began = time.monotonic()
    if limit_s <= 0:
        return 0.0
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)
    for _ in attempts(limit_s, "the disk to be idle", interval_s=_POLL_S):
        if unwritten_bytes() <= _IDLE_BYTES:
            break
    return time.monotonic() - began


def unwritten_bytes() -> int:
    """Return what the system has yet to write to its disks; 0 if it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return sum(int(fields[name][0]) << 10 for name in ("Dirty", "Writeback") if fields.get(name))
