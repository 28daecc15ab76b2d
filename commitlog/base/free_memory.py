"""The free memory of the machine, of the control group and of the shared-memory file system."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog.errors import PoolMemoryError

SHM_DIRECTORY = Path("/dev/shm")

# File system type -> the files that hold limit, usage, and the key of memory.stat for page cache
# that goes first.
_CGROUP_FILES = {
    "cgroup2": ("memory.max", "memory.current", "inactive_file"),
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Free bytes, and the limit that they come from."""

    size: int
    source: str


def require_free_memory(size: int, what: str, *, shared: bool) -> None:
    """Raise `PoolMemoryError` if fewer bytes are free. `what` is their purpose, which begins the
    message. If they are `shared`, the shared-memory file system must have them, too.
    """
    limits = [machine_memory(), *cgroup_memory()]
    if shared:
        limits += shm_space()
    free = min(limits, key=lambda limit: limit.size)
    if size > free.size:
        raise PoolMemoryError(
            f"{what} needs {describe_size(size)}, but only {describe_size(free.size)} are free "
            f"({free.source}): use fewer or smaller buffers, or give the process more memory",
            wanted=size,
            available=free.size,
        )


def describe_size(size: int) -> str:
    """Format bytes for a message, exactly and in MiB."""
    return f"{size} bytes ({size / 2**20:.1f} MiB)"


def machine_memory() -> FreeMemory:
    """Return the memory that the machine can provide without swapping."""
    import psutil  # a quarter of numpy's import time, for pools that check the memory

    return FreeMemory(psutil.virtual_memory().available, "the machine's available memory")


def shm_space(directory: Path = SHM_DIRECTORY) -> list[FreeMemory]:
    """Return the free space of the shared-memory file system; an empty list if it has no limit.

    It is checked first, because a store into a page that a full tmpfs cannot provide is a SIGBUS.
    """
    space = os.statvfs(directory)
    if space.f_blocks == 0:  # mounted with size=0: no limit
        return []
    return [FreeMemory(space.f_bavail * space.f_frsize, f"free space in {directory}")]


def cgroup_memory(process: Path = Path("/proc/self")) -> list[FreeMemory]:
    """Return the room in the process's control group and each group above it, version 1 and 2.

    Inactive file pages count as free, because Linux drops them first: otherwise a process that
    has written files would seem to be at its limit.
    """
    try:
        groups = (process / "cgroup").read_text()
        mounts = (process / "mountinfo").read_text()
    except OSError:
        return []
    found = []
    for kind, mount_point, root in _memory_mounts(mounts):
        path = _group_path(groups, kind)
        if path is not None:
            for directory in _group_directories(mount_point, root, path):
                found += _room(directory, kind)
    return found


def _memory_mounts(mounts: str) -> Iterator[tuple[str, Path, str]]:
    """Yield type, mount point and root of each hierarchy that may limit memory: see proc(5)."""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.partition(" ")
        if kind not in _CGROUP_FILES or (
            kind == "cgroup" and "memory" not in re.split(r"[ ,]", options)
        ):
            continue
        root, mount_point = (_unescaped(field) for field in fields.split(" ")[3:5])
        yield kind, Path(mount_point), root


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _group_path(groups: str, kind: str) -> str | None:
    """Return the process's group: in version 2 the line of id 0, in version 1 that of memory."""
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if (kind == "cgroup2" and number == "0" and not controllers) or (
            kind == "cgroup" and "memory" in controllers.split(",")
        ):
            return path
    return None


def _group_directories(mount_point: Path, root: str, path: str) -> Iterator[Path]:
    """Yield the group's directory and those above it; a container may see only the mount point."""
    inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else "/"
    directory = mount_point / inside.lstrip("/")
    if ".." in directory.parts or not directory.is_dir():
        directory = mount_point
    while True:
        yield directory
        if directory == mount_point:
            return
        directory = directory.parent


def _room(directory: Path, kind: str) -> list[FreeMemory]:
    limit_file, usage_file, reclaimable_key = _CGROUP_FILES[kind]
    try:
        limit_text = (directory / limit_file).read_text().strip()
        usage = int((directory / usage_file).read_text())
        statistics = (directory / "memory.stat").read_text()
    except (OSError, ValueError):  # the root group, or one without the controller: no limit
        return []
    if limit_text == "max":
        return []
    match = re.search(rf"^{reclaimable_key} (\d+)$", statistics, re.MULTILINE)
    reclaimable = int(match[1]) if match else 0
    room = int(limit_text) - max(0, usage - reclaimable)
    return [
        FreeMemory(
            max(0, room),
            f"the limit of {limit_text} bytes of control group {directory}, less its use",
        )
    ]
