"""Disks: what a power cut leaves of a directory, flushes that fail, and disks that are full.

`tests/faults/shim.c`, which is preloaded, notes what was made durable, and fails calls on demand.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import shutil
from pathlib import Path

from tests.faults import shim
from tests.faults.shadow import Shadow

EVENTS = ("power_cut", "cut_at", "disk_fault")  # which need a disk
FAULTS = {
    "EIO": (errno.EIO, ("msync", "fdatasync", "fsync file")),
    "full": (errno.ENOSPC, ("pwrite", "fallocate", "ftruncate")),
}
_SECTORS = (512, 4096)
_SHARES = (0.0, 0.0, 0.2, 0.5, 0.9, 1.0)  # of what was not flushed, and is there nevertheless
_PAGE = 4096


class Disks:
    """The disks of all machines of a run.

    Parameters
    ----------
    folder : Path
        An existing directory.

    Attributes
    ----------
    moved : dict
        Inodes of files that a cut has made anew, and those that they stand for.
    """

    def __init__(self, folder: Path) -> None:
        self._shadow = folder / "shadow"
        self._shadow.mkdir()
        state = folder / "shim-state"
        state.write_bytes(bytes(_PAGE))
        with state.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), _PAGE)
        self._faults: dict[str, tuple[str, int]] = {}  # by machine; calls that succeed before
        self._armed = ""
        self.moved: dict[int, int] = {}
        self._begin(
            {"COMMITLOG_SHIM_STATE": str(state), "COMMITLOG_SHIM_SHADOW": str(self._shadow)}
        )

    def _begin(self, variables: dict[str, str]) -> None:
        os.environ.update(variables)
        ctypes.CDLL(None).shim_begin()

    def close(self) -> None:
        """Note nothing more, and fail nothing."""
        self.heal()
        self._begin({"COMMITLOG_SHIM_STATE": "", "COMMITLOG_SHIM_SHADOW": ""})
        for name in ("COMMITLOG_SHIM_STATE", "COMMITLOG_SHIM_SHADOW"):
            del os.environ[name]
        ctypes.CDLL(None).shim_begin()
        self._state.close()

    # --- faults -----------------------------------------------------------------------------------

    def fail(self, machine: str, fault: str, after: int) -> None:
        """Have calls of the programs of a machine fail from now on, until `heal`."""
        self._faults[machine] = fault, after

    def heal(self, machine: str | None = None) -> None:
        """End the faults of a machine, or of all."""
        self._arm("")
        self._faults = {} if machine is None else {
            name: each for name, each in self._faults.items() if name != machine
        }  # fmt: skip

    def turn(self, machine: str) -> None:
        """Let the next calls be those of a machine."""
        if machine != self._armed and (self._armed or machine in self._faults):
            self._arm(machine)

    def _arm(self, machine: str) -> None:
        if self._armed:
            for each in FAULTS[self._faults[self._armed][0]][1]:
                shim.fail(self._state, each, 0)
        self._armed = machine if machine in self._faults else ""
        if self._armed:
            name, after = self._faults[machine]
            cause, calls = FAULTS[name]
            for each in calls:
                shim.fail(self._state, each, cause, after=after)
            self._faults[machine] = name, 0

    # --- power cuts -------------------------------------------------------------------------------

    def settle(self, folder: str | Path) -> None:
        """Have all of a directory be durable, as after `sync` or a restart."""
        if os.path.isdir(folder):
            Shadow(self._shadow).settle(Path(folder))

    def cut(self, folder: str | Path, drawn: random.Random) -> str:
        """Leave of a directory what a power cut would; return how it was."""
        share, sector = drawn.choice(_SHARES), drawn.choice(_SECTORS)
        if os.path.isdir(folder):
            self._cut_folder(Path(folder), drawn, share, sector)
            self.settle(folder)
        return f"{share:.0%} of what was not flushed is there, by {sector} bytes"

    def _cut_folder(self, folder: Path, drawn: random.Random, share: float, sector: int) -> None:
        noted = self._shadow / f"entries-{folder.stat().st_ino}"
        lines = noted.read_text().splitlines() if noted.exists() else []
        durable = {name: int(inode) for inode, name in (each.split(" ", 1) for each in lines)}
        live = {entry.name: entry.inode() for entry in os.scandir(folder)}
        for name in sorted(durable | live):
            inode, path = (live if drawn.random() < share else durable).get(name), folder / name
            if live.get(name) == inode and path.is_dir():
                self._cut_folder(path, drawn, share, sector)
            elif live.get(name) == inode:
                content = self._left_of(inode, path.read_bytes(), drawn, share, sector)
                with path.open("r+b") as file:  # it keeps its inode
                    file.write(content)
                    file.truncate()
            else:
                _remove(path)
                if inode is not None:
                    path.write_bytes(self._left_of(inode, b"", drawn, share, sector))
                    self.moved[path.stat().st_ino] = inode

    def _left_of(
        self, inode: int | None, live: bytes, drawn: random.Random, share: float, sector: int
    ) -> bytes:
        """Return what is left of a file; `live` is empty if its name was removed."""
        kept = self._shadow / str(inode)
        durable = kept.read_bytes() if kept.exists() else b""
        size = max(len(durable), len(live)) if drawn.random() < share else len(durable)
        content = bytearray(durable.ljust(size, b"\0"))
        for at in range(0, min(size, len(live)), sector):
            if drawn.random() < share:
                stop = min(at + sector, size)
                content[at:stop] = live[at:stop].ljust(stop - at, b"\0")
        return bytes(content)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
