"""The machine that a run is on."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import numpy as np
import psutil

import commitlog
from commitlog.errors import UnsupportedError

_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


def describe(directory: Path) -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "memory_bytes": psutil.virtual_memory().total,
        "load": os.getloadavg()[0],
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(directory),
        "free_bytes": shutil.disk_usage(directory).free,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "commitlog": commitlog.__version__,
    }


def _processor() -> str:
    """Return the model as Linux names it, else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    # Reversed, so that the first of several processors wins.
    parts = (line.partition(":") for line in reversed(lines))
    fields = {name.strip(): value.strip() for name, colon, value in parts if colon}
    model = fields.get("model name") or fields.get("Model")
    return model or platform.processor() or platform.machine()


def file_system(directory: Path) -> dict[str, str]:
    """Return type, device and options of a directory's mount; "unknown" if it is not listed."""
    where = directory.resolve()
    mounts = [
        mount
        for mount in psutil.disk_partitions(all=True)
        if where.is_relative_to(mount.mountpoint)
    ]
    if not mounts:
        return {"type": "unknown", "device": "unknown", "options": ""}
    # Of mounts over each other, the last one is visible.
    mount = max(enumerate(mounts), key=lambda pair: (len(pair[1].mountpoint), pair[0]))[1]
    return {"type": mount.fstype, "device": mount.device, "options": mount.opts}


def check_disk(directory: Path, memory_allowed: bool) -> None:
    """Refuse a file system in memory, whose figures say nothing about a disk."""
    kind = file_system(directory)["type"]
    if kind in _IN_MEMORY and not memory_allowed:
        raise UnsupportedError(
            f"this is {kind}, which is memory: a flush costs nothing there; "
            "name a directory on a disk, or add --memory to measure it anyway",
            path=directory,
        )
