"""Runs another process one machine instruction at a time, and stops it after each change to the
shared state.

The child is traced with ptrace, as by a debugger, without test code in it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_TRACE_SINGLESTEP, _TRACE_ATTACH, _TRACE_DETACH = 9, 16, 17
_WAIT_ALL = 0x40000000
_STEPS_MOST = 2_000_000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _trace(request: int, pid: int, signal_number: int = 0) -> None:
    if _libc.ptrace(request, pid, None, signal_number) != 0:
        cause = ctypes.get_errno()
        raise OSError(cause, f"ptrace: {os.strerror(cause)}")


class Watched:
    """The main thread of a child under control; its other threads run on.

    Parameters
    ----------
    pid : int
        The child, which waits for this process in a system call.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        _trace(_TRACE_ATTACH, pid)
        self._wait()

    def _wait(self) -> int:
        _, status = os.waitpid(self.pid, _WAIT_ALL)
        assert os.WIFSTOPPED(status), f"the child ended while it was stepped: {status}"
        return os.WSTOPSIG(status)

    def run_to_change(self, look: Callable[[], object], change: int) -> None:
        """Step until the result of `look` has changed `change` times."""
        seen = look()
        for _ in range(_STEPS_MOST):
            _trace(_TRACE_SINGLESTEP, self.pid)
            stopped_by = self._wait()
            assert stopped_by == signal.SIGTRAP, signal.Signals(stopped_by)
            found = look()
            if found != seen:
                seen = found
                change -= 1
                if change == 0:
                    return
        raise AssertionError(f"{_STEPS_MOST} instructions, and {change} changes are still missing")

    def let_go(self) -> None:
        """Let the child run on."""
        _trace(_TRACE_DETACH, self.pid)
