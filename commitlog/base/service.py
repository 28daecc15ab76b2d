"""Service: a background thread of an open log, which logs its failure."""

from __future__ import annotations

import logging
import os
import threading

from commitlog.errors import CommitLogError, LogFailedError

_logger = logging.getLogger("commitlog")
# Held while the first caller starts a service, and during a fork, so that it is free in the child.
start_lock = threading.Lock()
os.register_at_fork(
    before=start_lock.acquire, after_in_parent=start_lock.release, after_in_child=start_lock.release
)


class Service:
    """One named thread around `run`. The name includes the log's path; `join` sets `ending`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: CommitLogError | None = None
        self.ending = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Run until asked to end; each service overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    def start(self) -> None:
        """Start the thread, a daemon: at exit, `commitlog/log/registry.py` closes the log."""
        self._thread = threading.Thread(target=self._guarded_run, name=self.name, daemon=True)
        self._thread.start()

    def _guarded_run(self) -> None:
        try:
            self.run()
        except LogFailedError as error:
            self.error = error
            _logger.debug("%s ended: %s", self.name, error)  # the log reports the failure once
        except CommitLogError as error:
            self.error = error
            _logger.error("%s ended: %s", self.name, error)
        except Exception:
            _logger.exception("%s ended by an unexpected error", self.name)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return False if it still runs after `timeout_s` seconds."""
        self.ending.set()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
