"""What commitlog is compared with: the same work without it, as well as it can be done."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from zlib import crc32

import numpy as np

from commitlog.base.units import MIB
from commitlog.bench import compiler
from commitlog.bench.case import Case
from commitlog.bench.ground import HEADER, Ground, frame_size, value_of
from commitlog.bench.sample import Meter, Sample

PIECE = MIB
# A flush behind each piece would leave the disk idle in between; this is as much as one segment.
SYNC_EVERY = 64 * MIB
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, which the mmap module does not name
_C_LIMIT_S = 600
_C_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    long long total = atoll(argv[2]), piece = atoll(argv[3]);
    long long sync_every = atoll(argv[4]), unsynced = 0;
    unsigned char *bytes = malloc(piece);
    struct timespec began, ended;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (!bytes || fd < 0 || posix_fallocate(fd, 0, total))
        return 1;
    for (long long i = 0; i < piece; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long long at = 0; at < total; at += piece) {
        if (pwrite(fd, bytes, piece, at) != piece)
            return 1;
        unsynced += piece;
        if (unsynced >= sync_every) {
            if (fdatasync(fd))
                return 1;
            unsynced = 0;
        }
    }
    if (fdatasync(fd))
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
    return 0;
}
"""


def _mapping(path: Path, size: int) -> mmap.mmap:
    """A new file, allocated and brought into memory whole, as the best that a program could start
    from.
    """
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
    """An append in Python: length, CRC, no timestamp, value; one call a record, as it is with
    commitlog.
    """
    pack_into, position = struct.Struct("<IIQ").pack_into, HEADER

    def append(value: bytes) -> int:
        nonlocal position
        start, body = position, position + 16
        end = body + len(value)
        mapping[body:end] = value
        pack_into(mapping, start, end - start, crc32(value), 0)
        position = (end + 7) & ~7
        return start

    return append


def measure_python_mmap(ground: Ground, case: Case, _hashed: bool) -> Sample:
    """The best append that Python alone has, without a log around it: nothing rolls, nothing is
    flushed, nobody reads.
    """
    settings, value = ground.settings, value_of(case.value_size)
    count = max(1, settings.burst_bytes // frame_size(case.value_size))
    clock = time.perf_counter_ns
    with ground.place(settings.burst_bytes + HEADER) as path, Meter(case.value_size) as meter:
        mapping = _mapping(path, settings.burst_bytes + HEADER + frame_size(case.value_size))
        try:
            for _ in range(max(1, settings.append_bytes // settings.burst_bytes // 4)):
                append = _appender(mapping)
                began = clock()
                for _ in repeat(None, count):
                    append(value)
                meter.note(began, clock() - began, count)
        finally:
            mapping.close()
    return meter.sample


def measure_page_msync(ground: Ground, case: Case, _hashed: bool) -> Sample:
    """Write as many bytes as a record has, behind the last ones, and msync the page that they are
    in.
    """
    settings, value = ground.settings, value_of(case.value_size)
    size, frame, page = settings.segment_size, frame_size(case.value_size), mmap.PAGESIZE
    taken = []
    clock = time.perf_counter_ns
    with ground.place(size) as path, Meter(case.value_size) as meter:
        mapping = _mapping(path, size)
        try:
            mapping.flush()
            position, ended = HEADER, clock()
            deadline = ended + int(settings.sync_s * 1e9)
            while ended < deadline:
                began = ended
                mapping[position : position + len(value)] = value
                mapping.flush(position & -page, page)
                ended = clock()
                taken.append(ended - began)
                position += frame
                # One page is all that a flush writes: a record that would cross into the next one
                # begins there.
                if position % page + frame > page:
                    position = -(-position // page) * page
                if position + page > size:
                    position = HEADER
            meter.note(deadline, sum(taken), len(taken))
        finally:
            mapping.close()
    meter.sample.latencies_ns = np.array(taken, np.int64)
    return meter.sample


@dataclass(frozen=True)
class PlainWrite:
    """How long plain writing took, and in which language."""

    seconds: float
    language: str


def write_plainly(ground: Ground, path: Path, total: int) -> PlainWrite:
    """Write a pre-allocated file in pieces of 1 MiB, with fdatasync behind every 64 MiB and at the
    end: in C, or without gcc in Python.
    """
    total = max(PIECE, total // PIECE * PIECE)
    with contextlib.suppress(compiler.NoCompilerError):
        program = compiler.build(ground.root, "plain-write", _C_SOURCE)
        command = [str(program), str(path), str(total), str(PIECE), str(SYNC_EVERY)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_C_LIMIT_S
        )
        return PlainWrite(int(done.stdout) / 1e9, "C")
    piece = value_of(PIECE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, total)
        began = time.perf_counter_ns()
        for at in range(0, total, PIECE):
            os.pwrite(fd, piece, at)
            if (at + PIECE) % SYNC_EVERY == 0:
                os.fdatasync(fd)
        os.fdatasync(fd)
        return PlainWrite((time.perf_counter_ns() - began) / 1e9, "Python")
    finally:
        os.close(fd)


def measure_plain_write(ground: Ground, case: Case, _hashed: bool) -> Sample:
    """As many bytes as the sustained appends put into their log, frame headers included; the rate
    is that of the values in them.
    """
    values = ground.settings.sustained_bytes
    records = max(1, values // case.value_size)
    total = records * frame_size(case.value_size)
    with ground.place(total) as path, Meter(case.value_size) as meter:
        began = time.perf_counter_ns()
        done = write_plainly(ground, path, total)
        meter.note(began, int(done.seconds * 1e9), records)
        meter.sample.facts = {
            "language": done.language,
            "piece_bytes": PIECE,
            "sync_every_bytes": SYNC_EVERY,
        }
    return meter.sample
