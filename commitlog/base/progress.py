"""Meter: report now and then how far long work has come."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.base.host import host
from commitlog.errors import InvalidOptionError

Progress = Callable[[int, int], object]
_EVERY_S = 0.1


class Meter:
    """Call a function with the bytes that are done and their total: at the start, at most ten times
    a second, and at the end.

    The function runs in the thread that works. What it raises ends the work, as a failure would.

    Parameters
    ----------
    call : callable or None
        The function; None: report nothing.
    total : int
        Bytes, or steps.
    """

    def __init__(self, call: Progress | None, total: int) -> None:
        if call is not None and not callable(call):
            raise InvalidOptionError(
                f"progress must be a function of bytes done and in total, not {call!r}"
            )
        self._call = call
        self._total = total
        self._done = 0
        self._next_s = 0.0
        self.add(0)

    def add(self, count: int) -> None:
        """Note that so much more is done."""
        self._done += count
        if self._call is not None:
            now_s = host.monotonic()
            if now_s >= self._next_s:
                self._next_s = now_s + _EVERY_S
                self._call(min(self._done, self._total), self._total)

    def grow(self, count: int) -> None:
        """Note that there is so much more to do."""
        self._total += count

    def end(self) -> None:
        """Note that all is done."""
        if self._call is not None:
            self._call(self._total, self._total)
