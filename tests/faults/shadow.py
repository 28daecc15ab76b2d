"""Shadow: what the preloaded `shim.c` has noted as durable, and power cuts simulated from it."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.faults import image

_SECTOR = 512  # the unit that a disk writes atomically


class Shadow:
    """The folder that COMMITLOG_SHIM_SHADOW names: a file per inode, and the names in directories.

    Parameters
    ----------
    folder : Path
        An existing directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def durable(self, file: Path) -> bytes:
        """Return the durable bytes of a file."""
        return (self.folder / str(file.stat().st_ino)).read_bytes()

    def settle(self, directory: Path) -> None:
        """Record everything in a directory as durable, as after a restart of the machine."""
        entries = list(os.scandir(directory))
        lines = "".join(f"{entry.inode()} {entry.name}\n" for entry in entries)
        (self.folder / f"entries-{directory.stat().st_ino}").write_text(lines)
        for entry in entries:
            path = directory / entry.name
            if entry.is_dir():
                self.settle(path)
            else:
                (self.folder / str(entry.inode())).write_bytes(path.read_bytes())

    def cut_power(
        self, log: Path, target: Path, numbers: random.Random, written_share: float
    ) -> None:
        """Make `target` what a power cut would leave of `log`: all durable bytes and names, and
        some of the others, by sector and by name.

        Parameters
        ----------
        log : Path
            The log's directory; its processes are stopped or dead.
        target : Path
            The directory to create.
        numbers : random.Random
            Chooses the sectors and names that the system had written back.
        written_share : float
            The share of them: 0 none, 1 all.
        """
        self._cut_directory(log, target, numbers, written_share)
        image.restarted(target)

    def _cut_directory(
        self, log: Path, target: Path, numbers: random.Random, written_share: float
    ) -> None:
        target.mkdir()
        noted = self.folder / f"entries-{log.stat().st_ino}"
        lines = noted.read_text().splitlines() if noted.exists() else []
        durable = {name: int(inode) for inode, name in (line.split(" ", 1) for line in lines)}
        live = {entry.name: entry.inode() for entry in os.scandir(log)}
        for name in sorted(durable | live):
            inode = (live if numbers.random() < written_share else durable).get(name)
            if inode is None:
                continue
            path = log / name if live.get(name) == inode else None
            if path is not None and path.is_dir():
                self._cut_directory(path, target / name, numbers, written_share)
            else:
                (target / name).write_bytes(self._cut_file(inode, path, numbers, written_share))

    def _cut_file(
        self, inode: int, path: Path | None, numbers: random.Random, written_share: float
    ) -> bytes:
        """Return what is left of a file; `path` is None if its name was removed."""
        kept = self.folder / str(inode)
        durable = kept.read_bytes() if kept.exists() else b""
        live = path.read_bytes() if path is not None else b""
        size = max(len(durable), len(live)) if numbers.random() < written_share else len(durable)
        content = bytearray(durable.ljust(size, b"\0"))
        for at in range(0, min(size, len(live)), _SECTOR):
            if numbers.random() < written_share:
                content[at : at + _SECTOR] = live[at : at + _SECTOR].ljust(
                    min(_SECTOR, size - at), b"\0"
                )
        return bytes(content)
