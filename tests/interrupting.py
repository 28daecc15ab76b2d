"""Run code of the test in the middle of a call, at a chosen line of the package and in the same
thread, as a signal handler or a finaliser does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import commitlog

_PACKAGE = str(Path(commitlog.__file__).parent)


class _Interrupter:
    def __init__(self, line: int, act: Callable[[], object]) -> None:
        self._left = line
        self._act = act

    def enter(self, frame: FrameType, _event: str, _detail: Any) -> Any:
        name = frame.f_code.co_filename
        return self.step if name.startswith(_PACKAGE) or name == contextlib.__file__ else None

    def step(self, _frame: FrameType, event: str, _detail: Any) -> Any:
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self._act()
        return self.step

    @property
    def left(self) -> int:
        return self._left


def interrupted_at(line: int, call: Callable[[], object], act: Callable[[], object]) -> bool:
    """Call `call`, and `act` before the line of that number, counted from 1, that it executes in
    the package; return False if it executes fewer lines.
    """
    interrupter = _Interrupter(line, act)
    before = sys.gettrace()
    sys.settrace(interrupter.enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return interrupter.left <= 0
