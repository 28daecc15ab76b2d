"""Log directories as bytes: the cells of `cursors`, copies, and what a restart of the machine would
leave.
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
    """The file that a position lies in."""
    return directory / f"{position - position % SEGMENT_SIZE:020d}.seg"


def segments(directory: Path) -> list[Path]:
    """All segment files, by base."""
    return sorted(directory.glob("*.seg"))


def temporaries(directory: Path) -> list[str]:
    """Files that something left half made."""
    return sorted(name for name in os.listdir(directory) if name.endswith(".tmp"))


def poke(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def cell(directory: Path, name: str) -> int:
    """One of the shared cells."""
    with (directory / "cursors").open("rb") as file:
        file.seek(_CELLS_AT + _CELLS.index(name) * _LINE)
        return int(struct.unpack("<Q", file.read(8))[0])


def set_cell(directory: Path, name: str, value: int) -> None:
    """Make one of the shared cells say something else."""
    poke(directory / "cursors", _CELLS_AT + _CELLS.index(name) * _LINE, struct.pack("<Q", value))


def shm_names(directory: Path) -> list[str]:
    """The shared-memory buffers that a pooled log has written down."""
    text = (directory / "lock").read_text().rstrip("\0 ")
    return list(json.loads(text)["pool_names"]) if text else []


def forget_boot(directory: Path) -> None:
    """Make the machine seem to have been restarted since the log was written."""
    poke(directory / "cursors", _BOOT_AT, OTHER_BOOT)
    lock = directory / "lock"
    text = lock.read_text().rstrip("\0 ")
    if text:
        holder = json.loads(text) | {"boot_id": OTHER_BOOT.hex()}
        lock.write_text(json.dumps(holder))


def copy_live(source: Path, target: Path) -> None:
    """Copy a log's files while it is written, as any tool would: file by file, and those that have
    gone meanwhile are left out.

    The checkpoint comes first: a later one says of records that they are durable which the copies
    of the segments do not have.
    """
    target.mkdir()
    for name in sorted(os.listdir(source), key=lambda name: (name != "checkpoint", name)):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(source / name, target / name)


def restarted(directory: Path) -> None:
    """Finish a copy that stands for the log itself after a restart: in its own place, of another
    boot, as far as its files are whole.
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
    """What the files hold behind position `end`, headers left out, with runs of zeros dropped:
    empty where all is zero.
    """
    rest = b""
    for path in segments(directory):
        base = int(path.stem)
        if base + SEGMENT_SIZE > end:
            rest += path.read_bytes()[max(end - base, HEADER_SIZE) :].strip(b"\0")
    return rest
