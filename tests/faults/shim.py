"""The shim of `shim.c`: built once, its state, and the power cuts that its shadow makes possible."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
from pathlib import Path

from tests.faults import image

CALLS = ("msync", "pwrite", "fdatasync", "fsync", "fallocate")
_PAGE = 4096
_COUNTS_AT, _FLUSHED_AT, _DELAYS_AT = 64, 128, 136


def build(directory: Path) -> Path:
    """Compile the shim."""
    library = directory / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, source, "-ldl", "-pthread"], check=True)
    return library


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
        variables = {"LD_PRELOAD": str(self._library), "COMMITLOG_SHIM_STATE": str(self._state_path)}
        return variables | ({"COMMITLOG_SHIM_SHADOW": str(self.shadow)} if shadow else {})

    def fail(self, call: str, cause: int) -> None:
        """Let every call of that name fail with an errno; 0 lets them through again."""
        struct.pack_into("<q", self._state, CALLS.index(call) * 8, cause)

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

    def cut_power(self, log: Path, target: Path, numbers: random.Random, written_share: float) -> None:
        """Make `target` what a power cut would leave of `log`: what was made durable, and, page by page, some of what was not.

        Parameters
        ----------
        log : Path
            The directory, of a process that is stopped or dead.
        target : Path
            Where the remains go.
        numbers : random.Random
            Chooses the pages that the system had written of its own accord.
        written_share : float
            How many of them: 0 none, 1 all.
        """
        target.mkdir()
        entries = dict(reversed(line.split(" ", 1)) for line in (self.shadow / "entries").read_text().splitlines())
        for name, inode in entries.items():
            kept = self.shadow / inode
            durable = kept.read_bytes() if kept.exists() else b""
            live = (log / name).read_bytes() if (log / name).exists() else b""
            size = max(len(durable), len(live)) if numbers.random() < written_share else len(durable)
            content = bytearray(durable.ljust(size, b"\0"))
            for at in range(0, min(size, len(live)), _PAGE):
                if numbers.random() < written_share:
                    content[at : at + _PAGE] = live[at : at + _PAGE].ljust(min(_PAGE, size - at), b"\0")
            (target / name).write_bytes(bytes(content))
        image.restarted(target)
