"""Service: a background thread of an open log, which logs its failure."""

from __future__ import annotations

import logging

from commitlog.base.fork_lock import ForkLock
from commitlog.base.host import Thread, host
from commitlog.errors import CommitLogError, LogFailedError

_logger = logging.getLogger("commitlog")
# Held while the first caller starts a service.
start_lock = ForkLock()


class Service:
    """One named thread around `run`; `join` sets `ending`. The name is ``commitlog``, the task, and
    the log's path.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: CommitLogError | None = None
        self.ending = host.event()
        self._thread: Thread | None = None

    def run(self) -> None:
        """Run until asked to end; each service overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    def start(self) -> None:
        """Start the thread, a daemon: at exit, `commitlog/log/registry.py` closes the log.

        If the system has no thread left, raise `IOFailureError`; then nothing runs.
        """
        thread = host.thread(self.name, self._guarded_run)
        thread.start()
        self._thread = thread

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
        if self._thread is None or self._thread.ident == host.ident():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
