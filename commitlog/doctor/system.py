"""The machine: platform, clock, boot id, limits, memory."""

from __future__ import annotations

import mmap
import os
import platform
import resource
import sys
import time
from pathlib import Path

import posix_ipc
import psutil

from commitlog._kernel.memory import Memory, crc32c_implementation
from commitlog.base.boot import boot_id
from commitlog.doctor.finding import Outcome, failed, ok, warning
from commitlog.doctor.workspace import Workspace
from commitlog.options import PAGE_SIZE
from commitlog.pool.free_memory import SHM_DIRECTORY, shm_space

_ARCHITECTURES = ("x86_64", "aarch64")
_KERNEL_LEAST = (3, 15)  # open-file-description locks, renameat2
_KERNEL_POPULATES = (5, 14)  # MADV_POPULATE_WRITE
_FAST_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
_POOL = 5 * (64 << 20)  # what a pool takes unless it is told otherwise
_OPEN_FILES_LEAST = 64
_OPEN_FILES_ENOUGH = 1024
_CLOCK_CALLS = 2000
_COARSE = 5  # CLOCK_REALTIME_COARSE


def check_platform(workspace: Workspace) -> Outcome:
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
            "the processor has no CRC instruction that could be used: expect a tenth of the speed "
            "with long records",
        )
    if version < _KERNEL_POPULATES:
        return warning(
            found,
            "before Linux 5.14 pages are brought in one by one: run a newer kernel for steadier "
            "appends",
        )
    return ok(found)


def check_boot_id(workspace: Workspace) -> Outcome:
    try:
        return ok(boot_id().hex())
    except (OSError, ValueError) as error:
        return failed(
            f"/proc/sys/kernel/random/boot_id: {error}", "mount /proc where the program runs"
        )


def check_clock(workspace: Workspace) -> Outcome:
    began = time.perf_counter_ns()
    for _ in range(_CLOCK_CALLS):
        time.clock_gettime_ns(time.CLOCK_REALTIME)
    each_ns = (time.perf_counter_ns() - began) / _CLOCK_CALLS
    coarse_ms = time.clock_getres(_COARSE) * 1e3
    source = _setting("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    found = (
        f"{source or 'unknown source'}, coarse timestamps every {coarse_ms:.3g} ms, a precise "
        f"one within {each_ns:.0f} ns"
    )
    if source is not None and source not in _FAST_CLOCKS:
        return warning(
            found,
            "the clock is asked through the kernel: keep coarse timestamps, or choose a faster "
            "clock source",
        )
    return ok(found)


def _setting(path: str) -> str | None:
    """What the kernel says in a file of /proc or /sys; of several choices, the one in force. None
    where it does not say.
    """
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text[text.find("[") + 1 : text.find("]")] if "[" in text else text


def check_open_files(workspace: Workspace) -> Outcome:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    used = psutil.Process().num_fds()
    if limit == resource.RLIM_INFINITY:
        return ok("no limit")
    found = f"{limit} for a process, {used} in use"
    if limit - used < _OPEN_FILES_LEAST:
        return failed(found, "raise the limit: ulimit -n 1024")
    if limit < _OPEN_FILES_ENOUGH:
        return warning(
            found, "raise the limit for programs with many logs or tailers: ulimit -n 1024"
        )
    return ok(found)


def check_memory_lock(workspace: Workspace) -> Outcome:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    told = "no limit" if limit == resource.RLIM_INFINITY else f"RLIMIT_MEMLOCK {limit >> 10} KiB"
    memory = Memory(PAGE_SIZE)
    try:
        memory.lock()
        memory.unlock()
    except OSError as error:
        return warning(
            f"{told}, but a page is refused: {error.strerror}",
            "allow mlock: without it a pool's buffers may be swapped out",
        )
    finally:
        memory.close()
    if limit != resource.RLIM_INFINITY and limit < _POOL and os.geteuid() != 0:
        return warning(
            f"{told}, less than a pool's {_POOL >> 20} MiB",
            "raise it (ulimit -l) for pools; logs without a pool need none",
        )
    return ok(told)


def check_shared_memory(workspace: Workspace) -> Outcome:
    name = f"/commitlog-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    advice = (
        "mount a tmpfs at /dev/shm (in a container: --shm-size) for pools with backing='shm'; "
        "other logs need none"
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
        return warning(f"POSIX shared memory cannot be had: {error}", advice)
    found = f"{SHM_DIRECTORY}: {room[0] >> 20} MiB free" if room else f"{SHM_DIRECTORY}: no limit"
    return warning(found, advice) if room and room[0] < _POOL else ok(found)
