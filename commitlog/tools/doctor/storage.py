"""Check the file system: its type, its free space, its allocation, and how long a flush takes."""

from __future__ import annotations

import mmap
import os
import statistics
import time

from commitlog.base.file_system import check_file_system, file_system_type
from commitlog.errors import UnsupportedError
from commitlog.options import PAGE_SIZE
from commitlog.tools.bench.machine import file_system
from commitlog.tools.doctor.finding import Finding, Workspace, failed, ok, warning

_TMPFS = (0x01021994, 0x858458F6)  # and ramfs
# btrfs, ZFS, bcachefs: a write goes to another block than the allocated one.
_COPY_ON_WRITE = (0x9123683E, 0x2FC12FC1, 0xCA451A4E)
ROOM_LEAST = 4 << 20
_ROOM_ENOUGH = 256 << 20
_ALLOCATED = 1 << 20
_BLOCK = 512  # what `st_blocks` counts in
_SYNCS = 15
# No device is faster than the first; below the second, single sync appends are fast enough.
_SUSPICIOUS_S = 8e-6
_SLOW_S = 20e-3


def check_kind(workspace: Workspace) -> Finding:
    mount = file_system(workspace.directory)
    found = f"{mount['type']} ({mount['device']})"
    try:
        check_file_system(str(workspace.directory))
    except UnsupportedError as error:
        return failed(
            f"{found}: {error}", "put the log on a local file system; on this one, mode 'r' works"
        )
    kind = file_system_type(str(workspace.directory))
    if kind in _TMPFS:
        return warning(
            f"{found} is memory",
            "use it for a bus between processes only: a power cut or a reboot loses every record, "
            "flushed or not",
        )
    if kind in _COPY_ON_WRITE:
        return warning(
            f"{found} is a copy-on-write file system",
            "keep some space free, because allocated blocks may still run out; disable "
            "copy-on-write for the directory (chattr +C)",
        )
    return ok(found)


def check_room(workspace: Workspace) -> Finding:
    space = os.statvfs(workspace.directory)
    free = space.f_bavail * space.f_frsize
    found = f"{free / 2**20:,.0f} MiB free"
    if space.f_blocks == 0:
        return ok("the file system has no limit")
    if free < ROOM_LEAST:
        return failed(
            found,
            f"free at least {ROOM_LEAST >> 20} MiB: the smallest log and these checks need it",
        )
    if free < _ROOM_ENOUGH:
        return warning(
            found,
            "free some space, or use a smaller segment_size: segments of 64 MiB are allocated "
            "ahead of need",
        )
    return ok(found)


def check_allocation(workspace: Workspace) -> Finding:
    with workspace.file("allocated") as fd:
        began = time.perf_counter()
        try:
            os.posix_fallocate(fd, 0, _ALLOCATED)
        except OSError as error:
            return failed(
                f"fallocate fails: {error.strerror}",
                "use a file system with fallocate and free space, such as ext4, XFS or tmpfs",
            )
        took_ms = (time.perf_counter() - began) * 1e3
        status = os.fstat(fd)
        if status.st_size != _ALLOCATED or status.st_blocks * _BLOCK < _ALLOCATED:
            return failed(
                f"fallocate of {_ALLOCATED >> 10} KiB allocated only "
                f"{status.st_blocks * _BLOCK >> 10} KiB",
                "use a file system that allocates blocks: on a full disk, a store into a hole "
                "kills the program (SIGBUS)",
            )
    return ok(f"{_ALLOCATED >> 10} KiB allocated in {took_ms:.1f} ms")


def check_msync(workspace: Workspace) -> Finding:
    took_s = []
    with (
        workspace.file("mapped", _SYNCS * PAGE_SIZE) as fd,
        mmap.mmap(fd, _SYNCS * PAGE_SIZE, mmap.MAP_SHARED) as mapping,
    ):
        for offset in range(0, _SYNCS * PAGE_SIZE, PAGE_SIZE):
            mapping[offset] = 1
            began = time.perf_counter()
            try:
                mapping.flush(offset, PAGE_SIZE)
            except OSError as error:
                return failed(
                    f"msync of a page fails: {error.strerror}",
                    "look into the log of Linux (`dmesg`): the disk or its file system is faulty",
                )
            took_s.append(time.perf_counter() - began)
    median_s = statistics.median(took_s)
    found = f"msync of a page: median {median_s * 1e6:,.0f} µs, longest {max(took_s) * 1e6:,.0f} µs"
    if median_s < _SUSPICIOUS_S:
        return warning(
            f"{found}: too fast for a device",
            "expect to lose flushed records in a power cut: the flush does not reach a device",
        )
    if median_s > _SLOW_S:
        return warning(
            found,
            "use append_many, several threads or flush='async': a sync append waits for a whole "
            "flush, which threads share",
        )
    return ok(found)
