"""The shim of `shim.c`: built once, its state, and the power cuts that its shadow makes
possible.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import subprocess
from pathlib import Path

from tests.faults import image

# "fsync" is that of files and of directories, "punch" an fallocate that makes a hole.
CALLS = (
    "msync",
    "pwrite",
    "fdatasync",
    "fsync",
    "fallocate",
    "rename",
    "link",
    "unlink",
    "ftruncate",
    "fsync directory",
    "fsync file",
    "punch",
)
_PAGE = 4096
_SECTOR = 512  # which a disk writes whole or not at all
_COUNTS_AT, _FLUSHED_AT, _DELAYS_AT, _FIRST_AT, _FAILED_AT, _NAMES_AT = 128, 256, 264, 392, 520, 648
_NAME_SIZE = 64


def build(directory: Path) -> Path:
    """Compile the shim."""
    library = directory / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            library,
            source,
            "-ldl",
            "-pthread",
        ],
        check=True,
    )
    return library


def fail(state: mmap.mmap, call: str, cause: int, *, name: str = "", after: int = 0) -> None:
    """See `Shim.fail`, also for a child that does it itself."""
    index = CALLS.index(call)
    struct.pack_into("<q", state, index * 8, 0)
    state[_NAMES_AT + index * _NAME_SIZE : _NAMES_AT + (index + 1) * _NAME_SIZE] = (
        name.encode().ljust(_NAME_SIZE, b"\0")
    )
    struct.pack_into("<q", state, _FIRST_AT + index * 8, after)
    struct.pack_into("<q", state, index * 8, cause)


def failures(state: mmap.mmap, call: str) -> int:
    """See `Shim.failures`."""
    return int(struct.unpack_from("<Q", state, _FAILED_AT + CALLS.index(call) * 8)[0])


def own_state() -> mmap.mmap:
    """The state of the shim of this very process."""
    with open(os.environ["COMMITLOG_SHIM_STATE"], "r+b") as file:
        return mmap.mmap(file.fileno(), _PAGE)


class Shim:
    """One process's shim, or that of several which share it.

    Parameters
    ----------
    library : Path
        What `build` gave.
    directory : Path
        For its state and its shadow.
    """

    def __init__(self, library: Path, directory: Path) -> None:
        self.shadow = directory / "shadow"
        self.shadow.mkdir()
        state = directory / "shim-state"
        state.write_bytes(bytes(_PAGE))
        with state.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), _PAGE)
        self._state_path = state
        self._library = library

    def environment(self, *, shadow: bool = False) -> dict[str, str]:
        """The variables under which a child has it."""
        variables = {
            "LD_PRELOAD": str(self._library),
            "COMMITLOG_SHIM_STATE": str(self._state_path),
        }
        return variables | ({"COMMITLOG_SHIM_SHADOW": str(self.shadow)} if shadow else {})

    def fail(self, call: str, cause: int, *, name: str = "", after: int = 0) -> None:
        """Let every call of that name fail with an errno; 0 lets them through again.

        Parameters
        ----------
        name : str
            Only on files with this in their path.
        after : int
            So many of them succeed before.
        """
        fail(self._state, call, cause, name=name, after=after)

    def failures(self, call: str) -> int:
        """How many calls of that name have failed."""
        return failures(self._state, call)

    def delay(self, call: str, microseconds: int) -> None:
        """Let every call of that name wait before it begins; 0 also lets those go on that wait."""
        struct.pack_into("<q", self._state, _DELAYS_AT + CALLS.index(call) * 8, microseconds)

    def count(self, call: str) -> int:
        """How many calls of that name went through."""
        return int(struct.unpack_from("<Q", self._state, _COUNTS_AT + CALLS.index(call) * 8)[0])

    @property
    def flushed_bytes(self) -> int:
        """The bytes in the ranges that msync was called with."""
        return int(struct.unpack_from("<Q", self._state, _FLUSHED_AT)[0])

    def durable(self, file: Path) -> bytes:
        """What was made durable of a file."""
        return (self.shadow / str(file.stat().st_ino)).read_bytes()

    def settle(self, directory: Path) -> None:
        """Take down as durable all that there is in a directory: a restarted machine found it on
        its disk.
        """
        entries = list(os.scandir(directory))
        lines = "".join(f"{entry.inode()} {entry.name}\n" for entry in entries)
        (self.shadow / f"entries-{directory.stat().st_ino}").write_text(lines)
        for entry in entries:
            path = directory / entry.name
            if entry.is_dir():
                self.settle(path)
            else:
                (self.shadow / str(entry.inode())).write_bytes(path.read_bytes())

    def cut_power(
        self, log: Path, target: Path, numbers: random.Random, written_share: float
    ) -> None:
        """Make `target` what a power cut would leave of `log`: what was made durable, and some of
        what was not, sector by sector of the files and name by name of the directories.

        Parameters
        ----------
        log : Path
            The directory, of a process that is stopped or dead.
        target : Path
            Where the remains go.
        numbers : random.Random
            Chooses the sectors and names that the system had written of its own accord.
        written_share : float
            How many of them: 0 none, 1 all.
        """
        self._cut_directory(log, target, numbers, written_share)
        image.restarted(target)

    def _cut_directory(
        self, log: Path, target: Path, numbers: random.Random, written_share: float
    ) -> None:
        target.mkdir()
        noted = self.shadow / f"entries-{log.stat().st_ino}"
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
        """What is left of a file; without a path, of one that has lost its name since."""
        kept = self.shadow / str(inode)
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
