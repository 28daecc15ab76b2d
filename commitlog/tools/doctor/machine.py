"""Check the machine: platform, and the memory of pools."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import resource
import sys

import posix_ipc

from commitlog.base.free_memory import SHM_DIRECTORY, shm_space
from commitlog.extension import crc32c_implementation
from commitlog.options import PAGE_SIZE
from commitlog.tools.doctor.finding import Finding, Workspace, failed, ok, warning

_ARCHITECTURES = ("x86_64", "aarch64")
_KERNEL_LEAST = (3, 15)  # open-file-description locks, renameat2
_KERNEL_POPULATES = (5, 14)  # MADV_POPULATE_WRITE
_POOL = 5 * (64 << 20)  # bytes of a pool with the default options


def check_platform(workspace: Workspace) -> Finding:
    release = platform.release()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    found = f"Linux {release}, {platform.machine()}, {python}, CRC {crc32c_implementation()}"
    if (
        sys.platform != "linux"
        or platform.machine() not in _ARCHITECTURES
        or version < _KERNEL_LEAST
    ):
        return failed(found, "use Linux 3.15 or newer on x86-64 or aarch64")
    if crc32c_implementation() == "portable":
        return warning(
            found,
            "use a processor with CRC instructions: without them, long records are ten times as "
            "slow",
        )
    if version < _KERNEL_POPULATES:
        return warning(
            found,
            "run Linux 5.14 or newer for steadier appends: an older one pre-faults page by page",
        )
    return ok(found)


def check_memory_lock(workspace: Workspace) -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    found = "no limit" if limit == resource.RLIM_INFINITY else f"RLIMIT_MEMLOCK {limit >> 10} KiB"
    cause = _lock_page()
    if cause:
        return warning(
            f"{found}, but mlock of a page fails: {os.strerror(cause)}",
            "allow mlock: without it, the buffers of a pool may be swapped out",
        )
    if limit != resource.RLIM_INFINITY and limit < _POOL and os.geteuid() != 0:
        return warning(
            f"{found}, less than the {_POOL >> 20} MiB of a pool",
            "raise the limit (ulimit -l) for pools; logs without a pool do not need it",
        )
    return ok(found)


def _lock_page() -> int:
    """Lock a page of memory and unlock it; return the errno, or 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Dropped, not closed: after Ctrl-C, the traceback still holds the view, and close would fail.
    page = mmap.mmap(-1, PAGE_SIZE)
    view = ctypes.c_char.from_buffer(page)
    address, size = ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(PAGE_SIZE)
    refused = libc.mlock(address, size) or libc.munlock(address, size)
    return ctypes.get_errno() if refused else 0


def check_shared_memory(workspace: Workspace) -> Finding:
    name = f"/commitlog-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    advice = (
        "mount a larger tmpfs at /dev/shm (in a container: --shm-size) for pools with "
        "backing='shm'; other logs do not need it"
    )
    try:
        memory = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, size=PAGE_SIZE, mode=0o600)
        try:
            os.posix_fallocate(memory.fd, 0, PAGE_SIZE)
            mmap.mmap(memory.fd, PAGE_SIZE).close()
        finally:
            memory.close_fd()
            posix_ipc.unlink_shared_memory(name)
        room = [space.size for space in shm_space()]
    except (OSError, posix_ipc.Error) as error:
        return warning(f"POSIX shared memory fails: {error}", advice)
    found = f"{SHM_DIRECTORY}: {room[0] >> 20} MiB free" if room else f"{SHM_DIRECTORY}: no limit"
    return warning(found, advice) if room and room[0] < _POOL else ok(found)
