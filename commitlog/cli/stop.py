"""Ctrl-C as a wish and not as an exception, for a command that finishes what it has begun."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self


class Stop:
    """Notes the first Ctrl-C in `asked` and wakes whoever waits for input; the second is a
    KeyboardInterrupt as usual.

    An exception could strike in the middle of an append, and then nobody would know what was
    appended. Where Ctrl-C is ignored, as in a shell's background, it stays so.
    """

    def __init__(self) -> None:
        self.asked = False
        self._at_once = False

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._noted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        os.close(self._read_end)
        os.close(self._write_end)

    def _noted(self, number: int, frame: FrameType | None) -> None:
        if self.asked or self._at_once:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True
        os.write(self._write_end, b"\0")

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """For what can wait for ever and has nothing to finish, such as opening a FIFO: leaves the
        block at the first Ctrl-C.
        """
        self._at_once = True
        try:
            yield
        except KeyboardInterrupt:
            self.asked = True
        finally:
            self._at_once = False

    def wait_for(self, descriptor: int) -> bool:
        """Wait until something can be read. False: it is time to stop."""
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        ready.register(self._read_end, select.POLLIN)
        while not self.asked:
            if any(found == descriptor for found, _ in ready.poll()):
                return not self.asked
        return False
