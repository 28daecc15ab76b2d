"""Keys that are pressed while a command shows something."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self

from commitlog.cli.progress import is_terminal


class Keys:
    """Takes single keys from the terminal, which is put back as it was afterwards; where there is
    none, nothing is ever pressed.
    """

    def __enter__(self) -> Self:
        self._descriptor = sys.stdin.fileno() if is_terminal(sys.stdin) else -1
        if self._descriptor >= 0:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def pressed(self, key: str, timeout_s: float) -> bool:
        """Whether a key is pressed within a time; others are passed over."""
        if self._descriptor < 0:
            time.sleep(timeout_s)
            return False
        deadline = time.monotonic() + timeout_s
        while select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            found = os.read(self._descriptor, 1024)
            if (
                not found or key.encode() in found
            ):  # at the end of what is typed, nobody is there any more
                return True
        return False
