"""Reached: how far a thread that copies a log has come, for threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from commitlog.base.host import host
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError


class Reached:
    """Wait for a position, or for the end of the thread.

    Parameters
    ----------
    stopping : threading.Event
        Set when the thread is to end.

    Attributes
    ----------
    error : CommitLogError or None
        What ended the thread. It sets this, and then calls `note`.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self.error: CommitLogError | None = None
        self._stopping = stopping
        self._news = host.condition()

    def note(self) -> None:
        """Wake those who wait: something has changed."""
        with self._news:
            self._news.notify_all()

    def wait(self, now: Callable[[], int], position: int | None, timeout: Duration | None) -> bool:
        """Wait until `now` returns at least `position`. Return False if the time expired; raise
        the error that ended the thread.
        """
        limit_s = None if timeout is None else parse_duration(timeout, "timeout")

        def has_come() -> bool:
            if self.error is not None or self._stopping.is_set():
                return True
            return position is not None and now() >= position

        with self._news:
            done = self._news.wait_for(has_come, limit_s)
        if self.error is not None:
            raise self.error
        return done and (position is None or now() >= position)
