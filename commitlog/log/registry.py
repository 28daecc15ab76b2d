"""The open logs of this process: notified of forks, and drained at exit if still open."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import warnings
from typing import Protocol

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
    """The parts of every open log; at exit, `drain` closes the logs that are still open."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._logs: set[RegisteredLog] = set()
        self._at_exit = False
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._forked,
        )

    def add(self, log: RegisteredLog) -> None:
        """Register an opened log; warn if this process has it open for writing already."""
        with self._lock:
            if log.inode is not None and any(other.inode == log.inode for other in self._logs):
                _logger.warning(
                    "%s is already open for writing in this process: share one handle among all "
                    "threads",
                    log.path,
                )
            self._logs.add(log)
            if not self._at_exit:
                # Registered late, so that it runs before the exit handlers of pools.
                self._at_exit = True
                atexit.register(self.drain)

    def discard(self, log: object) -> None:
        with self._lock:
            self._logs = {other for other in self._logs if other is not log}

    def drain(self) -> None:
        """Close every log that is still open, with a warning each."""
        with self._lock:
            logs = list(self._logs)
        for log in logs:
            warnings.warn(
                f"the log {log.path} was never closed; it is drained at exit",
                ResourceWarning,
                stacklevel=1,
            )
            with contextlib.suppress(CommitLogError):
                log.close()

    def _forked(self) -> None:
        try:
            # The parent drains them. If the child adopts one, it is added again.
            logs, self._logs = self._logs, set()
            for log in logs:
                log.forked()
        finally:
            self._lock.release()


registry = Registry()
