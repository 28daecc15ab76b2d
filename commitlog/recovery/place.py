"""Place: what a file has that a copy of it does not share.

A file says in its content where it was written. A file that was restored from a backup, cloned, or
moved to another file system, is another file, and says so. A reboot, another mount, a new name or
mode, and a move inside the file system change nothing that is compared here.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from typing import Any, Self

from commitlog.base.file_system import file_system_type

_OVERLAY = 0x794C7630
_WITHOUT_INODES = (0x4D44, 0x2011BAB0)  # FAT, exFAT: a remount gives files other ones
_STATX_BTIME, _AT_EMPTY_PATH = 0x800, 0x1000
_STATX_SIZE = 256  # bytes
_MASK = struct.Struct("=I")
_BORN = struct.Struct("=qI")  # seconds, nanoseconds
_BORN_AT = 80


@dataclass(frozen=True)
class Place:
    """Where a file is.

    Attributes
    ----------
    file : int or None
        Its inode; None on FAT and exFAT, where nothing is known.
    directory : int or None
        The inode of its directory; None on overlayfs, where that changes.
    born_ns : int or None
        When the file was created; None if the file system does not know, and on overlayfs, where it
        changes when a container changes the file's owner.
    """

    file: int | None
    directory: int | None
    born_ns: int | None

    @classmethod
    def of(cls, directory_fd: int, fd: int) -> Self:
        """Return the place of an open file."""
        kind, inode = file_system_type(directory_fd), os.fstat(fd).st_ino
        if kind in _WITHOUT_INODES:
            return cls(None, None, None)
        if kind == _OVERLAY:
            return cls(inode, None, None)
        return cls(inode, os.fstat(directory_fd).st_ino, _born_ns(fd))

    @classmethod
    def parse(cls, content: object) -> Self | None:
        """Return the place that a file has in its content; None if there is none."""
        if content is None:
            return None
        if isinstance(content, dict):
            file, directory, born_ns = (content.get(key) for key in ("file", "directory", "born"))
            if _is_known(file) and _is_known(directory) and _is_known(born_ns):
                return cls(file, directory, born_ns)
        raise ValueError("its place cannot be read")

    def content(self) -> dict[str, Any]:
        return {"file": self.file, "directory": self.directory, "born": self.born_ns}

    def is_same(self, other: Place) -> bool:
        """Return whether both are one file, as far as both are known."""
        return (
            _agree(self.file, other.file)
            and _agree(self.directory, other.directory)
            and _agree(self.born_ns, other.born_ns)
        )


def _is_known(value: object) -> bool:
    return value is None or type(value) is int


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _born_ns(fd: int) -> int | None:
    """Return when a file was created; Python's `stat` does not say."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    try:
        failed = libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
    except AttributeError:  # an old C library
        return None
    if failed or not _MASK.unpack_from(buffer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = _BORN.unpack_from(buffer, _BORN_AT)
    return int(seconds * 1_000_000_000 + nanoseconds)
