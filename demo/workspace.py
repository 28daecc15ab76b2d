"""Workspace: the temporary directory of the demo, and its file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

# File systems in memory: a flush makes nothing durable there.
_IN_MEMORY = {"tmpfs", "ramfs"}


@dataclass(frozen=True)
class Workspace:
    """The directory of the demo.

    Attributes
    ----------
    path : str
        The directory.
    file_system : str
        The type of its file system.
    mount_point : str
        The mount point of its file system.
    """

    path: str
    file_system: str
    mount_point: str

    @property
    def in_memory(self) -> bool:
        """Return whether the file system is in memory."""
        return self.file_system in _IN_MEMORY

    def log(self, name: str) -> str:
        """Return the path for a log."""
        return os.path.join(self.path, name)


@contextmanager
def temporary_workspace(parent: str | None, wanted_bytes: int) -> Iterator[Workspace]:
    """Create a temporary directory, and remove it with its content at the end.

    Parameters
    ----------
    parent : str or None
        The parent directory. None: the first writable one on a disk of the current directory,
        /var/tmp, the home directory, and the temporary directory of the system.
    wanted_bytes : int
        The free space that the demo needs.

    Raises
    ------
    OSError
        There is no such directory, or too little free space.
    """
    parent = _choose() if parent is None else parent
    free = shutil.disk_usage(parent).free
    if free < wanted_bytes:
        raise OSError(
            f"{parent} has {free >> 20} MiB free and the demo needs {wanted_bytes >> 20} MiB: free "
            "some space, or choose another directory with --dir"
        )
    path = tempfile.mkdtemp(prefix="commitlog-demo-", dir=parent)
    try:
        yield Workspace(path, *_file_system(path))
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _choose() -> str:
    places = [os.getcwd(), "/var/tmp", os.path.expanduser("~"), tempfile.gettempdir()]
    writable = [
        place for place in places if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
    ]
    if not writable:
        raise OSError(f"cannot write to any of {', '.join(places)}: choose a directory with --dir")
    return next(
        (place for place in writable if _file_system(place)[0] not in _IN_MEMORY), writable[0]
    )


def _file_system(path: str) -> tuple[str, str]:
    """Return type and mount point of the file system of a path: of the longest mount point above
    it, the last mount.
    """
    path = os.path.realpath(path)
    above = [
        part
        for part in psutil.disk_partitions(all=True)
        if os.path.commonpath([path, part.mountpoint]) == part.mountpoint
    ]
    mount = max(reversed(above), key=lambda part: len(part.mountpoint), default=None)
    return ("unknown", "/") if mount is None else (mount.fstype, mount.mountpoint)
