"""Ctrl-C and other signals as a request: a command finishes or removes what it has begun."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Self


class Stop:
    """Set `requested` and end `wait_for` at the first Ctrl-C; the second is a KeyboardInterrupt.

    An exception in the middle of an append would leave unknown what was appended. If SIGINT is
    ignored, as in a background job of a shell, it stays ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._immediate = False

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        os.close(self._read_end)
        os.close(self._write_end)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested or self._immediate:
            self.requested = True
            raise KeyboardInterrupt
        self.requested = True
        os.write(self._write_end, b"\0")

    @contextlib.contextmanager
    def immediate(self) -> Iterator[None]:
        """Leave the block at the first Ctrl-C: for a call that may block without a bound and has
        nothing to finish, such as opening a FIFO.
        """
        self._immediate = True
        try:
            yield
        except KeyboardInterrupt:
            self.requested = True
        finally:
            self._immediate = False

    def wait_for(self, descriptor: int) -> bool:
        """Wait until the descriptor can be read; return False if a Ctrl-C came first."""
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        ready.register(self._read_end, select.POLLIN)
        while not self.requested:
            if any(found == descriptor for found, _ in ready.poll()):
                return not self.requested
        return False


class Ending:
    """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, so that the command removes its
    files.

    Python drops an exception that is raised in the callback of a weak reference or of a fork. The
    handler therefore also sets a flag for `check`, and the interpreter's message about the dropped
    exception is suppressed.

    Parameters
    ----------
    serves : bool
        The command runs until it is ended, so SIGTERM ends it without an error.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, *, serves: bool = False) -> None:
        self._signalled = False
        self._serves = serves
        self._terminated = False

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in self._SIGNALS}
        for number, handler in self._before.items():
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._interrupt)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._report_dropped
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable
        return self._serves and self._terminated and kind is KeyboardInterrupt

    def _report_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._unraisable(dropped)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True
        self._terminated = number == signal.SIGTERM
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._signalled:
            raise KeyboardInterrupt
