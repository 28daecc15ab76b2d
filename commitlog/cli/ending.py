"""The end of a command that has created files, by Ctrl-C or another signal that ends programs."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Self


class Ending:
    """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, so that the command removes its
    files.

    Python drops an exception that is raised in the callback of a weak reference or of a fork. The
    handler therefore also sets a flag for `check`, and the interpreter's message about the dropped
    exception is suppressed.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._signalled = False

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in self._SIGNALS}
        for number, handler in self._before.items():
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._interrupt)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._report_dropped
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable

    def _report_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._unraisable(dropped)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._signalled:
            raise KeyboardInterrupt
