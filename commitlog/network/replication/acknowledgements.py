"""Acknowledgements: the `Quota` of one log, for the threads that report to it and wait for it."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.base.host import host
from commitlog.errors import FencedError, ReplicationError
from commitlog.extension import Rank
from commitlog.network.replication.quota import Copied, Event, Fenced, Quota, Refused


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
        self._closed = False

    def successor(self) -> Acknowledgements:
        """Return those of another log at the same path."""
        return Acknowledgements(self._path)

    def take(self, report: Event) -> None:
        """Take a report of a follower; raise `ReplicationError` if it cannot be true."""
        with self._news:
            action = self._quota.on(report)
            if isinstance(action, Fenced) and self.on_fence is not None:
                self.on_fence(action.rank)
            self._news.notify_all()
            if isinstance(report, Copied):
                self.show()
        if isinstance(action, Refused):
            raise ReplicationError(action.why, path=self._path)

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

    def begin(self, rank: Rank) -> None:
        """Take the epoch that the log has now."""
        with self._news:
            self._quota.begin(rank)

    def wait(self, position: int, copies: int, timeout_s: float | None) -> bool:
        """Wait until so many copies are durable beyond a position; False if the time expired."""
        quota = self._quota

        def is_over() -> bool:
            return self._closed or quota.fence is not None or quota.reached(copies) > position

        with self._news:
            self._news.wait_for(is_over, timeout_s)
            fence, reached = quota.fence, quota.reached(copies)
        if fence is not None:
            raise replaced(self._path, fence.number)
        return reached > position


def replaced(path: str, epoch: int) -> FencedError:
    return FencedError(
        f"a copy of this log was promoted to epoch {epoch}: what is appended here is not in it; "
        "stop the programs that append here",
        path=path,
    )
