"""The Python side of `shim.c`: compilation and state."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

from tests.faults.shadow import Shadow
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
        self.shadow = Shadow(directory / "shadow")
        self.shadow.folder.mkdir()
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
        return variables | ({"COMMITLOG_SHIM_SHADOW": str(self.shadow.folder)} if shadow else {})

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
