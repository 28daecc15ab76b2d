"""Preload: the state of `calls.c` in a process, and what it counts."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

from tests.faults import shim
from tests.preloaded import compiled

# As in calls.c.
KINDS = (
    "open", "create", "read", "write", "msync", "fsync", "fdatasync", "fallocate", "punch",
    "ftruncate", "rename", "link", "unlink", "mkdir", "stat", "fstat", "opendir", "readdir", "lock",
    "flock", "dup", "mmap", "mremap", "madvise", "mlock", "statfs", "copy", "shm", "thread",
    "socket", "connect", "bind", "accept", "send", "recv", "poll",
)  # fmt: skip
_PAGE = 4096
_FAULT = struct.Struct("<qqqqQQ")
_FAULT_AT, _TRACE_AT, _MET_AT, _SEEN_AT, _FOLDER_AT = 16, 8, 48, 56, 64
_TRACE_FD = 900
SHORT = 0  # instead of an errno: the call does a half of what it is asked for


class Fault(NamedTuple):
    """The call that fails: the `nth` of a kind, once or from then on."""

    kind: str
    nth: int
    cause: int
    forever: bool


def build(folder: Path) -> str:
    """Compile the libraries; return the value of LD_PRELOAD."""
    calls = compiled(Path(__file__).with_name("calls.c"), folder)
    return f"{calls} {shim.build(folder)}"


class Preload:
    """The preloaded library of this process, and of its forks.

    Parameters
    ----------
    state : Path
        The file of its state; made anew.
    """

    def __init__(self, state: Path) -> None:
        state.write_bytes(bytes(_PAGE))
        with state.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), _PAGE)
        os.environ["COMMITLOG_CALLS_STATE"] = str(state)
        ctypes.CDLL(None).calls_begin()

    def keep_shadow(self, folder: Path) -> None:
        """Keep what is durable, for `shim.Shim.cut_power`, in a folder."""
        os.environ["COMMITLOG_SHIM_SHADOW"] = str(folder)
        ctypes.CDLL(None).shim_begin()

    def set_fault(self, fault: Fault | None) -> None:
        """Choose the call that fails when it is armed; None: none."""
        kind = -1 if fault is None else KINDS.index(fault.kind)
        _, nth, cause, forever = fault or ("", 0, 0, False)
        _FAULT.pack_into(self._state, _FAULT_AT, kind, nth, int(forever), cause, 0, 0)

    def arm(self, folder: Path) -> None:
        """Count the calls on paths below the folder from here on, and let the chosen one fail."""
        name = os.fsencode(folder)
        self._state[_FOLDER_AT : _FOLDER_AT + len(name) + 1] = name + b"\0"
        struct.pack_into("<q", self._state, 0, 1)

    def disarm(self) -> None:
        struct.pack_into("<q", self._state, 0, 0)

    def leave(self) -> None:
        """Let no call of this process, a fork, be counted."""
        del os.environ["COMMITLOG_CALLS_STATE"]
        ctypes.CDLL(None).calls_begin()

    @property
    def met(self) -> int:
        """Return how many calls have failed."""
        return int(struct.unpack_from("<Q", self._state, _MET_AT)[0])

    def trace_to(self, path: Path | None) -> None:
        """Write each counted call to a file; None: to none."""
        descriptor = 0
        if path is not None:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, _TRACE_FD)
            os.close(opened)
            descriptor = _TRACE_FD
        struct.pack_into("<q", self._state, _TRACE_AT, descriptor)
