"""Drives another process through one append, instruction by instruction, to a chosen point between
claim and publish.

The other process runs the built package in a real interpreter, without test code in it. It is a
child of this process and traced with ptrace.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

from commitlog.log.parts import parts_of
from tests.faults.child import Child, Link
from tests.faults.image import segment_path
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, open_log, value_of

_TRACEME, _SINGLESTEP, _DETACH = 0, 9, 17
_MOST_STEPS = 500_000
_SLOTS_AT, _LINE = 8192, 128
_CLAIMED = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, None, data or None) != 0:
        cause = ctypes.get_errno()
        raise OSError(cause, f"ptrace: {os.strerror(cause)}")


def append_driven(link: Link, path: str, session: int, claim_timeout: float) -> None:
    """Open, report the slot, then append one record under control of the parent; report its
    position and the number of refused claims.
    """
    log, _ = open_log(
        path, None, {"flush": "none", "claim_timeout": claim_timeout, "allocate_ahead": 0}
    )
    link.say(OPENED, session, parts_of(log).engine.slot or 0, log.tail_position)
    link.wait()
    value = value_of(session, 0)
    append = log.append
    _ptrace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    position = append(value)
    link.say(APPENDED, session, log.stats().refused_claims, position)
    link.wait()


class Driven:
    """A child in the middle of an append.

    Parameters
    ----------
    child : Child
        One that runs `append_driven`.
    path : Path
        The log, which this process, too, has open.
    """

    def __init__(self, child: Child, path: Path) -> None:
        self.child = child
        self._path = path
        opened = child.hear(1)[0]
        self.session, self.slot = opened.session, opened.index
        child.go_on()
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGSTOP

    def drive(self, place: str) -> None:
        """Run to one of the two points where a kill matters: ``"gap"``, after the add on the tail,
        or ``"claimed"``, after the first swap.
        """
        with (self._path / "cursors").open("rb") as file:
            cursors = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        before = struct.unpack_from("<Q", cursors, 4096 + _LINE)[0]
        position = (before >> 32) * SEGMENT_SIZE + (before & 0xFFFFFFFF)
        with segment_path(self._path, position).open("rb") as file:
            segment = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        arrived: dict[str, Callable[[], bool]] = {
            "gap": lambda: struct.unpack_from("<Q", cursors, 4096 + _LINE)[0] != before,
            "claimed": lambda: bool(
                struct.unpack_from("<I", segment, before & 0xFFFFFFFF)[0] & _CLAIMED
            ),
        }
        for _ in range(_MOST_STEPS):
            if arrived[place]():
                break
            _ptrace(_SINGLESTEP, self.child.pid)
            _, status = os.waitpid(self.child.pid, 0)
            assert os.WIFSTOPPED(status), "the child ended before it got there"
        else:
            raise AssertionError("the child never got there")
        odd = struct.unpack_from("<Q", cursors, _SLOTS_AT + self.slot * _LINE)[0] % 2
        assert odd, "the slot is odd from before the add until behind the first swap"
        self.position = position

    def stop(self) -> None:
        """Leave the child stopped by SIGSTOP at this instruction, with all of its threads."""
        _ptrace(_DETACH, self.child.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def resume(self) -> None:
        """Send SIGCONT after `stop`."""
        os.kill(self.child.pid, signal.SIGCONT)


def poke_gap(path: Path, slot: int, length: int = 48) -> None:
    """Run step 1 of an append only, for an idle process: make its slot odd and move the tail.

    No other process may append meanwhile, because the cells read here are written back.
    """
    with (path / "cursors").open("r+b") as file, mmap.mmap(file.fileno(), 0) as cursors:
        at = _SLOTS_AT + slot * _LINE
        counter, tail = (
            struct.unpack_from("<Q", cursors, at)[0],
            struct.unpack_from("<Q", cursors, 4096 + _LINE)[0],
        )
        assert counter % 2 == 0
        struct.pack_into("<Q", cursors, at, counter + 1)
        struct.pack_into("<Q", cursors, 4096 + _LINE, tail + length)
