"""The open logs of this process: notified of forks, and drained at exit if still open."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import warnings
from typing import Protocol

from commitlog.base.fork_lock import undisturbed
from commitlog.errors import CommitLogError

_logger = logging.getLogger("commitlog")


class RegisteredLog(Protocol):
    """The methods of a log that the registry uses."""

    @property
    def path(self) -> str: ...

    @property
    def inode(self) -> tuple[int, int] | None: ...

    def close(self) -> None: ...

    def forked(self) -> None: ...


class Registry:
    """The parts of every open log; at exit, `drain` closes the logs that are still open.

    Without a lock: a signal handler or a finaliser may open or close a log while the thread that it
    interrupts does so, too. Each change is one operation on the dictionary.
    """

    def __init__(self) -> None:
        self._logs: dict[int, RegisteredLog] = {}
        self._at_exit = False
        os.register_at_fork(after_in_child=self._forked)

    def add(self, log: RegisteredLog) -> None:
        """Register an opened log; warn if this process has it open for writing already."""
        inode = log.inode
        twice = inode is not None and any(
            other.inode == inode for other in self._logs.copy().values()
        )
        self._logs[id(log)] = log
        if not self._at_exit:
            # Registered late, so that it runs before the exit handlers of pools.
            self._at_exit = True
            atexit.register(self.drain)
        if twice:
            _logger.warning(
                "%s is already open for writing in this process: share one handle among all "
                "threads",
                log.path,
            )

    def discard(self, log: object) -> None:
        self._logs.pop(id(log), None)

    def drain(self) -> None:
        """Close every log that is still open, with a warning each."""
        for log in self._logs.copy().values():
            warnings.warn(
                f"the log {log.path} was never closed; it is drained at exit",
                ResourceWarning,
                stacklevel=1,
            )
            with contextlib.suppress(CommitLogError):
                log.close()

    def _forked(self) -> None:
        # The parent drains them. If the child adopts one, it is added again.
        logs, self._logs = self._logs, {}
        with contextlib.ExitStack() as steps:  # all of them, even if one raises
            for log in logs.values():
                steps.callback(undisturbed, log.forked)


registry = Registry()
