"""Log directories as bytes: the cells of `cursors`, copies, and the state after a machine
restart.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
from pathlib import Path

from tests.faults.writers import SEGMENT_SIZE

HEADER_SIZE = 4096
_BOOT_AT, _INODE_AT = 32, 48
_CELLS_AT, _LINE = 4096, 128
_CELLS = ("state", "tail", "appended", "committed", "flushed", "failed", "flusher")
OTHER_BOOT = bytes(range(16))


def segment_path(directory: Path, position: int) -> Path:
    """Return the segment file that holds a position."""
    return directory / f"{position - position % SEGMENT_SIZE:020d}.seg"


def segments(directory: Path) -> list[Path]:
    """Return all segment files in order of their base."""
    return sorted(directory.glob("*.seg"))


def temporaries(directory: Path) -> list[str]:
    """Return the names of the temporary files."""
    return sorted(name for name in os.listdir(directory) if name.endswith(".tmp"))


def poke(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def cell(directory: Path, name: str) -> int:
    """Return a shared cell's value."""
    with (directory / "cursors").open("rb") as file:
        file.seek(_CELLS_AT + _CELLS.index(name) * _LINE)
        return int(struct.unpack("<Q", file.read(8))[0])


def set_cell(directory: Path, name: str, value: int) -> None:
    """Overwrite a shared cell."""
    poke(directory / "cursors", _CELLS_AT + _CELLS.index(name) * _LINE, struct.pack("<Q", value))


def shm_names(directory: Path) -> list[str]:
    """Return the names of the shared-memory buffers that a pooled log has noted."""
    text = (directory / "lock").read_text().rstrip("\0 ")
    return list(json.loads(text)["pool_names"]) if text else []


def forget_boot(directory: Path) -> None:
    """Make the log look as if the machine had restarted since it was written."""
    poke(directory / "cursors", _BOOT_AT, OTHER_BOOT)
    lock = directory / "lock"
    text = lock.read_text().rstrip("\0 ")
    if text:
        holder = json.loads(text) | {"boot_id": OTHER_BOOT.hex()}
        lock.write_text(json.dumps(holder))


def copy_live(source: Path, target: Path) -> None:
    """Copy a log's files while it is written, file by file, without those removed meanwhile.

    The checkpoint is copied first: a later one may declare records durable that the copied segments
    do not have.
    """
    target.mkdir()
    for name in sorted(os.listdir(source), key=lambda name: (name != "checkpoint", name)):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(source / name, target / name)


def restarted(directory: Path) -> None:
    """Make a copy pass for the log itself after a restart: with its own inode, from another
    boot.
    """
    cursors = directory / "cursors"
    if cursors.exists() and cursors.stat().st_size >= HEADER_SIZE:
        poke(cursors, _INODE_AT, struct.pack("<Q", cursors.stat().st_ino))
        poke(cursors, _BOOT_AT, OTHER_BOOT)
    lock = directory / "lock"
    if lock.exists() and lock.read_bytes().startswith(b"{"):
        try:
            holder = json.loads(lock.read_text())
        except ValueError:
            return
        lock.write_text(
            json.dumps(holder | {"inode": directory.stat().st_ino, "boot_id": OTHER_BOOT.hex()})
        )


def behind(directory: Path, end: int) -> bytes:
    """Return the bytes after position `end`, without headers and runs of zeros; empty if all are
    zero.
    """
    rest = b""
    for path in segments(directory):
        base = int(path.stem)
        if base + SEGMENT_SIZE > end:
            rest += path.read_bytes()[max(end - base, HEADER_SIZE) :].strip(b"\0")
    return rest
