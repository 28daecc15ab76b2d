"""The Python side of `shim.c`: compilation, state, and the power cuts simulated from its shadow."""

from __future__ import annotations

import mmap
import os
import random
import struct
from pathlib import Path

from tests.faults import image
from tests.preloaded import compiled

# "fsync" covers files and directories; "punch" is an fallocate that makes a hole.
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
_SECTOR = 512  # the unit that a disk writes atomically
_COUNTS_AT, _FLUSHED_AT, _DELAYS_AT, _FIRST_AT, _FAILED_AT, _NAMES_AT = 128, 256, 264, 392, 520, 648
_NAME_SIZE = 64


def build(directory: Path) -> Path:
    """Compile the shim."""
    return compiled(Path(__file__).with_name("shim.c"), directory)


def fail(state: mmap.mmap, call: str, cause: int, *, name: str = "", after: int = 0) -> None:
    """Do what `Shim.fail` does; for a child that arms its own faults."""
    index = CALLS.index(call)
    struct.pack_into("<q", state, index * 8, 0)
    state[_NAMES_AT + index * _NAME_SIZE : _NAMES_AT + (index + 1) * _NAME_SIZE] = (
        name.encode().ljust(_NAME_SIZE, b"\0")
    )
    struct.pack_into("<q", state, _FIRST_AT + index * 8, after)
    struct.pack_into("<q", state, index * 8, cause)


def failures(state: mmap.mmap, call: str) -> int:
    """Return what `Shim.failures` returns."""
    return int(struct.unpack_from("<Q", state, _FAILED_AT + CALLS.index(call) * 8)[0])


def own_state() -> mmap.mmap:
    """Map the state of the shim of this process."""
    with open(os.environ["COMMITLOG_SHIM_STATE"], "r+b") as file:
        return mmap.mmap(file.fileno(), _PAGE)


class Shim:
    """A shim of one process, or of several that share it.

    Parameters
    ----------
    library : Path
        The result of `build`.
    directory : Path
        Directory of the state and the shadow.
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
        """Return the environment variables that preload the shim into a child."""
        variables = {
            "LD_PRELOAD": str(self._library),
            "COMMITLOG_SHIM_STATE": str(self._state_path),
        }
        return variables | ({"COMMITLOG_SHIM_SHADOW": str(self.shadow)} if shadow else {})

    def fail(self, call: str, cause: int, *, name: str = "", after: int = 0) -> None:
        """Let every call of this kind fail with an errno; 0 lets them succeed again.

        Parameters
        ----------
        name : str
            Only calls on files with this in their path fail.
        after : int
            Number of calls that succeed before.
        """
        fail(self._state, call, cause, name=name, after=after)

    def failures(self, call: str) -> int:
        """Return how many calls of this kind have failed."""
        return failures(self._state, call)

    def delay(self, call: str, microseconds: int) -> None:
        """Delay every call of this kind; 0 also releases the calls that wait."""
        struct.pack_into("<q", self._state, _DELAYS_AT + CALLS.index(call) * 8, microseconds)

    def count(self, call: str) -> int:
        """Return how many calls of this kind went through."""
        return int(struct.unpack_from("<Q", self._state, _COUNTS_AT + CALLS.index(call) * 8)[0])

    @property
    def flushed_bytes(self) -> int:
        """Return the number of bytes in the ranges passed to msync."""
        return int(struct.unpack_from("<Q", self._state, _FLUSHED_AT)[0])

    def durable(self, file: Path) -> bytes:
        """Return the durable bytes of a file."""
        return (self.shadow / str(file.stat().st_ino)).read_bytes()

    def settle(self, directory: Path) -> None:
        """Record everything in a directory as durable, as after a restart of the machine."""
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
        """Return what is left of a file; `path` is None if its name was removed."""
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
