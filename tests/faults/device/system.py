"""The system calls of the device: mount namespaces, mounts, and loop devices.

All mounts are made in a private mount namespace, and all loop devices detach themselves when they
are no longer mounted. So the kernel removes both when the last process ends, no matter how.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
_BIND, _RECURSIVE, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_LAZY = 2  # MNT_DETACH
_START_WRITING, _AWAIT_WRITING = 2, 4  # SYNC_FILE_RANGE_WRITE, _WAIT_AFTER
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_GET_FREE, _CONFIGURE, _CLEAR = 0x4C82, 0x4C0A, 0x4C01
_DETACH_ITSELF = 4  # LO_FLAGS_AUTOCLEAR
_LOOP = struct.Struct(
    "<II52xI176x64x"
)  # loop_config: descriptor, block size, and in its info flags
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}{arguments}: {os.strerror(code)}")


def enter_namespace() -> None:
    """Give this process and its children mounts of their own."""
    _call("unshare", _NEW_MOUNTS)
    _call("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, which alone hears the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def mount(source: str | Path, point: Path, kind: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system."""
    _call(
        "mount", str(source).encode(), bytes(point), kind.encode(), flags, options.encode() or None
    )


def bind(folder: Path, point: Path) -> None:
    """Let a folder be found at another path, too."""
    _call("mount", bytes(folder), bytes(point), None, _BIND, None)


def unmount(point: Path, *, lazy: bool = False) -> None:
    """Unmount a file system; if `lazy`, as soon as no process uses it."""
    _call("umount2", bytes(point), _LAZY if lazy else 0)


def pretend_boot(file: Path, boot: str) -> None:
    """Let the processes of this namespace see another boot id, which `file` keeps."""
    file.write_text(boot + "\n")
    bind(file, _BOOT_ID)


def write_back(fd: int, start: int, size: int, *, wait: bool = False) -> None:
    """Start writing the dirty pages of a range of a file to the device, without a flush of it; if
    `wait`, return when the device has them.
    """
    flags = _START_WRITING | (_AWAIT_WRITING if wait else 0)
    _call("sync_file_range", fd, ctypes.c_int64(start), ctypes.c_int64(size), flags)


class LoopDevice:
    """A loop device over a file. It detaches itself when it is neither open nor mounted.

    Parameters
    ----------
    file : Path
        A file or the image of a file system.
    sector_size : int
        The size that the device writes atomically.
    """

    def __init__(self, file: Path, sector_size: int) -> None:
        backing = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.path, self._fd = _attached(backing, sector_size)
        finally:
            os.close(backing)

    def close(self) -> None:
        """Leave the device to its mount, or detach it if it has none."""
        os.close(self._fd)


def _attached(backing: int, sector_size: int) -> tuple[Path, int]:
    config = _LOOP.pack(backing, sector_size, _DETACH_ITSELF)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(64):  # another process may take the free one first
            path = Path(f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}")
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(fd, _CONFIGURE, config)
            except OSError:
                os.close(fd)
                continue
            return path, fd
    finally:
        os.close(control)
    raise OSError("no loop device is free")
