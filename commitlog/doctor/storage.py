"""Check the file system: its type, its free space, how it creates files, and how long a flush
takes.
"""

from __future__ import annotations

import mmap
import os
import statistics
import time
from collections.abc import Callable

from commitlog._kernel.segments import rename_noreplace
from commitlog.bench.machine import file_system
from commitlog.doctor.finding import Outcome, failed, ok, warning
from commitlog.doctor.workspace import Workspace
from commitlog.errors import UnsupportedError
from commitlog.options import PAGE_SIZE
from commitlog.segment.directory import check_file_system, file_system_type

_TMPFS = (0x01021994, 0x858458F6)  # and ramfs
# btrfs, ZFS, bcachefs: a write goes to another block than the allocated one.
_COPY_ON_WRITE = (0x9123683E, 0x2FC12FC1, 0xCA451A4E)
ROOM_LEAST = 4 << 20
_ROOM_ENOUGH = 256 << 20
_ALLOCATED = 1 << 20
_BLOCK = 512  # what `st_blocks` counts in
_SYNCS = 15
_LOCAL = "use a local file system such as ext4, XFS or tmpfs"
# No device is faster than the first; below the second, single sync appends are fast enough.
_SUSPICIOUS_S = 8e-6
_SLOW_S = 20e-3


def check_kind(workspace: Workspace) -> Outcome:
    """Check that the file system is local and on a disk."""
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


def check_room(workspace: Workspace) -> Outcome:
    """Check that there is space for segments."""
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


def check_allocation(workspace: Workspace) -> Outcome:
    """Check that fallocate allocates blocks."""
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


def check_rename(workspace: Workspace) -> Outcome:
    """Check that a rename replaces no existing file."""
    fd = os.open(workspace.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with workspace.file("taken"), workspace.file("new") as new:
            try:
                replaced = rename_noreplace(fd, "new", "taken")
            except OSError as error:
                return failed(f"renameat2(RENAME_NOREPLACE) fails: {error.strerror}", _LOCAL)
            if replaced:
                os.close(
                    os.open(workspace.folder / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                )
                return failed("the rename replaced an existing file", _LOCAL)
            inode = os.fstat(new).st_ino
            if (
                not rename_noreplace(fd, "new", "placed")
                or os.stat(workspace.folder / "placed").st_ino != inode
            ):
                return failed("the rename to a free name had no effect", _LOCAL)
            rename_noreplace(fd, "placed", "new")
    finally:
        os.close(fd)
    return ok("renames to a free name, refuses an existing one")


def check_directory_sync(workspace: Workspace) -> Outcome:
    """Check that a directory can be flushed."""
    fd = os.open(workspace.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with workspace.file("entry"):
            began = time.perf_counter()
            os.fsync(fd)
            took_us = (time.perf_counter() - began) * 1e6
    except OSError as error:
        return failed(
            f"fsync of a directory fails: {error.strerror}",
            "use a file system that can flush directories, such as ext4 or XFS",
        )
    finally:
        os.close(fd)
    return ok(f"{took_us:,.0f} µs")


def check_msync(workspace: Workspace) -> Outcome:
    """Measure msync of one page."""
    with (
        workspace.file("mapped", 64 * PAGE_SIZE) as fd,
        mmap.mmap(fd, 64 * PAGE_SIZE, mmap.MAP_SHARED) as mapping,
    ):

        def flush(number: int) -> None:
            mapping[number % 64 * PAGE_SIZE] = number + 1
            mapping.flush(number % 64 * PAGE_SIZE, PAGE_SIZE)

        return _timed("msync of a page", flush)


def check_fdatasync(workspace: Workspace) -> Outcome:
    """Measure fdatasync of one page."""
    with workspace.file("written", 64 * PAGE_SIZE) as fd:

        def flush(number: int) -> None:
            os.pwrite(fd, b"x" * PAGE_SIZE, number % 64 * PAGE_SIZE)
            os.fdatasync(fd)

        return _timed("fdatasync of a page", flush)


def _timed(what: str, flush: Callable[[int], None]) -> Outcome:
    took_s = []
    for number in range(_SYNCS):
        began = time.perf_counter()
        try:
            flush(number)
        except OSError as error:
            return failed(
                f"{what} fails: {error.strerror}",
                "check the kernel log: the disk or its file system is faulty",
            )
        took_s.append(time.perf_counter() - began)
    median_s = statistics.median(took_s)
    found = f"{what}: median {median_s * 1e6:,.0f} µs, longest {max(took_s) * 1e6:,.0f} µs"
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
