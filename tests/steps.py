"""Kills a process at a chosen step: the package marks its steps with failpoints, and this module
hooks them.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator

from commitlog.base import failpoint
from commitlog.log.open_log import OpenLog
from commitlog.segment.directory import LogDirectory


def die() -> None:
    """Send SIGKILL to this process; no cleanup runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: int) -> Callable[[str], None]:
    """Return a failpoint hook that kills the process at step number `step`, counted from 1; 0 never
    kills.
    """
    steps = itertools.count(1)

    def passed(_name: str) -> None:
        # Count in one call: two threads must not get the same number, and no thread may skip the
        # chosen one.
        if next(steps) == step:
            die()

    return passed


def replace_hook(hook: Callable[[str], None] | None) -> None:
    """Install `hook` at each failpoint of the package; None removes it."""
    failpoint.hook = hook


@contextlib.contextmanager
def hooked_rolls(passed: Callable[[str], None]) -> Iterator[None]:
    """Call `passed` before and after each move of the tail, and before the roll opens the
    segment.
    """
    time_after, roll_from = OpenLog.time_after, OpenLog.roll_from
    cycle_at = LogDirectory.cycle_at

    def timed(self: OpenLog, number: int) -> int:
        opened_ns = time_after(self, number)
        # Last, because a debugger's single steps from here to the kernel's store are slow.
        passed("next segment brought")
        return opened_ns

    def opened(self: LogDirectory, opened_ns: int) -> int:
        passed("next segment opened")
        return cycle_at(self, opened_ns)

    def rolled(self: OpenLog, number: int) -> None:
        before = self.engine.tail
        roll_from(self, number)
        if self.engine.tail != before:
            passed("tail moved")

    OpenLog.time_after, OpenLog.roll_from = timed, rolled  # type: ignore[method-assign]
    LogDirectory.cycle_at = opened  # type: ignore[method-assign]
    try:
        yield
    finally:
        OpenLog.time_after, OpenLog.roll_from = time_after, roll_from  # type: ignore[method-assign]
        LogDirectory.cycle_at = cycle_at  # type: ignore[method-assign]


def killed_at(step: int, prepare: Callable[[], Callable[[], object]]) -> bool:
    """Run `prepare` in a forked child, then the function that it returned, and kill the child at
    that step of it; return False if the function ended before.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act = prepare()
            replace_hook(die_at(step))
            logging.disable()
            act()
            status = 0
        finally:
            os._exit(status)
    result = os.waitpid(child, 0)[1]
    assert result in (0, signal.SIGKILL), result
    return result != 0
