"""Acknowledgements: how far the copies of one log are durable, as their followers report."""

from __future__ import annotations

import threading
from collections.abc import Callable

from commitlog.errors import FencedError, ReplicationError
from commitlog.recovery.lineage import Rank

_FOLLOWERS_LIMIT = 1024  # names that are remembered


class Acknowledgements:
    """Remember the position of each follower of one log, and wake threads that wait for them.

    A follower that has gone still counts: what it has acknowledged is durable there. What was
    acknowledged in an earlier epoch does not count in a later one.

    Parameters
    ----------
    path : str
        The directory of the log, for errors.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.on_fence: Callable[[Rank], None] | None = None
        self.on_progress: Callable[[], None] | None = None
        self._news = threading.Condition()
        self._positions: dict[str, int] = {}
        self._rank = Rank()
        self._later_epoch = 0
        self._closed = False

    def add(self, name: str, rank: Rank, position: int) -> None:
        """Record what a follower has; a copy that was removed and made again may have less."""
        with self._news:
            if rank != self._rank:
                self._rank = rank
                self._positions.clear()
            if name not in self._positions and len(self._positions) >= _FOLLOWERS_LIMIT:
                raise ReplicationError(
                    f"{_FOLLOWERS_LIMIT} followers of other names have acknowledged records: "
                    "serve the log again to forget them",
                    path=self._path,
                )
            self._positions[name] = position
            self.show()
            self._news.notify_all()

    def show(self) -> None:
        """Tell the log how far its copies are."""
        if self.on_progress is not None:
            self.on_progress()

    def fence(self, rank: Rank) -> None:
        """Record that a copy has a later epoch: nothing is acknowledged from now on."""
        with self._news:
            if rank.number > self._later_epoch and self.on_fence is not None:
                self.on_fence(rank)
            self._later_epoch = max(self._later_epoch, rank.number)
            self._news.notify_all()

    def close(self) -> None:
        """End every wait."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def positions(self) -> dict[str, int]:
        """Return the position of each follower by its name."""
        with self._news:
            return dict(self._positions)

    def reached(self, copies: int) -> int:
        """Return the position up to which so many copies are durable."""
        with self._news:
            return self._reached(copies)

    def _reached(self, copies: int) -> int:
        positions = sorted(self._positions.values(), reverse=True)
        return positions[copies - 1] if len(positions) >= copies else 0

    def wait(self, position: int, copies: int, timeout_s: float | None) -> bool:
        """Wait until so many copies are durable beyond a position; False if the time expired."""

        def ended() -> bool:
            return bool(self._closed or self._later_epoch or self._reached(copies) > position)

        with self._news:
            self._news.wait_for(ended, timeout_s)
            if self._later_epoch:
                raise FencedError(
                    f"a copy of this log was promoted to epoch {self._later_epoch}: what is "
                    "appended here is not in it; stop the programs that append here",
                    path=self._path,
                )
            return self._reached(copies) > position
