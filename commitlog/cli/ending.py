"""The end of a command that has made files: wished for by Ctrl-C, or by whoever else ends
programs.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Self


class Ending:
    """Ctrl-C, and with it whoever tells the run to go or takes its terminal away: there are files
    to be removed.

    The exception is lost when it strikes in a weak reference's callback, or in what runs at a fork;
    so it is noted as well, for `look`. What the interpreter would say of the lost one is left out.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._asked = False

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in self._SIGNALS}
        for number, handler in self._before.items():
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._noted)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._unraisable

    def _lost(self, what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self._unraisable(what)

    def _noted(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        raise KeyboardInterrupt

    def look(self) -> None:
        """Raise KeyboardInterrupt when the run is to end."""
        if self._asked:
            raise KeyboardInterrupt
