"""Acknowledgements: the `Quota` of one log, for the threads that report to it and wait for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from commitlog.base.host import host
from commitlog.errors import FencedError, ReplicationError
from commitlog.extension import Rank
from commitlog.network.replication.quota import (
    Action,
    Awaited,
    Copied,
    Dropped,
    Event,
    Expired,
    Fenced,
    Promised,
    Quota,
    Reached,
    Refused,
    Tick,
)


class Acknowledgements:
    """Take what followers of one log report, and wake threads that wait for enough copies.

    Parameters
    ----------
    path : str
        The directory of the log, for errors.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.on_fence: Callable[[Rank], None] | None = None
        self.on_progress: Callable[[], None] | None = None
        self._news = host.condition()
        self._quota = Quota()
        self._keys = itertools.count()
        self._ended: dict[int, Action] = {}
        self._closed = False

    def successor(self) -> Acknowledgements:
        """Return those of another log at the same path."""
        return Acknowledgements(self._path)

    def take(self, report: Copied | Promised) -> None:
        """Take a report of a follower; raise `ReplicationError` if it cannot be true."""
        with self._news:
            actions = self._do(report)
            if isinstance(report, Copied):
                self.show()
        for each in actions:
            if isinstance(each, Refused):
                raise ReplicationError(each.why, path=self._path)

    def show(self) -> None:
        """Tell the log how far its copies are."""
        if self.on_progress is not None:
            self.on_progress()

    def close(self) -> None:
        """End every wait."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def positions(self) -> dict[str, int]:
        """Return the position of each follower by its name."""
        with self._news:
            return self._quota.positions

    def reached(self, copies: int) -> int:
        """Return the position up to which so many copies are durable."""
        with self._news:
            return self._quota.reached(copies)

    def wait(self, position: int, copies: int, timeout_s: float | None) -> bool:
        """Wait until so many copies are durable beyond a position; False if the time expired."""
        until_s = math.inf if timeout_s is None else host.monotonic() + timeout_s
        key = next(self._keys)
        with self._news:
            try:
                self._do(Awaited(key, position + 1, copies, until_s))
                while not (key in self._ended or self._closed or self._quota.fence):
                    now_s = host.monotonic()
                    self._do(Tick(now_s))
                    if key not in self._ended:
                        self._news.wait(None if timeout_s is None else until_s - now_s)
            finally:
                self._do(Dropped(key))
                ended = self._ended.pop(key, None)
            fence = self._quota.fence
        if fence is not None:
            raise FencedError(
                f"a copy of this log was promoted to epoch {fence.number}: what is appended here "
                "is not in it; stop the programs that append here",
                path=self._path,
            )
        return isinstance(ended, Reached)

    def _do(self, event: Event) -> list[Action]:
        """Hand an event to the quota, and do what follows; the caller has the lock."""
        actions = self._quota.on(event)
        for each in actions:
            if isinstance(each, Reached | Expired):
                self._ended[each.key] = each
            elif isinstance(each, Fenced) and self.on_fence is not None:
                self.on_fence(each.rank)
        if actions:
            self._news.notify_all()
        return actions
