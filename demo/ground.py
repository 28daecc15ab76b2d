"""The ground the demo stands on: a temporary directory, and the file system that it is on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

# File systems in memory: what is flushed there is not durable, so that the third act would prove
# nothing.
_IN_MEMORY = {"tmpfs", "ramfs"}


@dataclass(frozen=True)
class Ground:
    """A directory of the demo's own.

    Attributes
    ----------
    path : str
        The directory.
    file_system : str
        Its type, as the kernel names it.
    mount_point : str
        Where that file system is mounted.
    """

    path: str
    file_system: str
    mount_point: str

    @property
    def in_memory(self) -> bool:
        """Whether nothing there outlives the machine's power."""
        return self.file_system in _IN_MEMORY

    def log(self, name: str) -> str:
        """A path for a log."""
        return os.path.join(self.path, name)


@contextmanager
def temporary_ground(parent: str | None, wanted_bytes: int) -> Iterator[Ground]:
    """A temporary directory, removed in the end with all that is in it.

    Parameters
    ----------
    parent : str or None
        Where to make it. None: under the current directory, or where that is in memory or not
        writable, under /var/tmp, the home directory or the system's temporary directory, whichever
        first is on a disk.
    wanted_bytes : int
        Room that must be free.

    Raises
    ------
    OSError
        There is no such place, or no room in it.
    """
    parent = _choose() if parent is None else parent
    free = shutil.disk_usage(parent).free
    if free < wanted_bytes:
        raise OSError(
            f"{parent} has {free >> 20} MiB free and the demo needs {wanted_bytes >> 20}: free "
            "some, or name another with --dir"
        )
    path = tempfile.mkdtemp(prefix="commitlog-demo-", dir=parent)
    try:
        yield Ground(path, *_file_system(path))
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _choose() -> str:
    places = [os.getcwd(), "/var/tmp", os.path.expanduser("~"), tempfile.gettempdir()]
    writable = [
        place for place in places if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
    ]
    if not writable:
        raise OSError(f"none of {', '.join(places)} can be written: name a directory with --dir")
    return next(
        (place for place in writable if _file_system(place)[0] not in _IN_MEMORY), writable[0]
    )


def _file_system(path: str) -> tuple[str, str]:
    """Type and mount point of the mount that the path is under: the last one of the longest
    name.
    """
    path = os.path.realpath(path)
    above = [
        part
        for part in psutil.disk_partitions(all=True)
        if os.path.commonpath([path, part.mountpoint]) == part.mountpoint
    ]
    mount = max(reversed(above), key=lambda part: len(part.mountpoint), default=None)
    return ("unknown", "/") if mount is None else (mount.fstype, mount.mountpoint)
