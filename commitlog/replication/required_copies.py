"""RequiredCopies: an append waits until so many copies have its record durably."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace

from commitlog._kernel.engine import Engine
from commitlog._kernel.failure import REPLACED
from commitlog.errors import ClosedError, CommitLogError, ForkedError, SyncTimeoutError
from commitlog.log.parts import parts_of
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Rank
from commitlog.replication.served import Served

_logger = logging.getLogger("commitlog.replication")
_NEVER_WAITS = 1 << 63


class RequiredCopies:
    """The copies that acknowledge the appends of one open log.

    If a copy was promoted, the log promises its epoch durably and fails for all its processes.

    Parameters
    ----------
    engine : Engine
        The engine of the log.
    served : Served
        The log as it is served.
    require : int
        How many copies must have a record.
    timeout_s : float, optional
        How long an append waits for them; by default the log's `sync_timeout`.
    goes_on : bool
        After that time, acknowledge without the copies until they have caught up.
    end : callable
        Ends the serving of the log.
    """

    def __init__(
        self,
        engine: Engine,
        served: Served,
        require: int,
        timeout_s: float | None,
        *,
        goes_on: bool,
        end: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._served = served
        self._require = require
        self._timeout_s = timeout_s
        self._goes_on = goes_on
        self._end = end
        self._missing_below = 0  # until the copies are there, appends continue without them
        self._pid = os.getpid()
        self._closed = threading.Event()
        served.acknowledged.on_fence = self._fence
        engine.cursors.raise_replicated(1)  # readers may wait for copies from now on
        served.acknowledged.on_progress = self._show

    def _show(self) -> None:
        """Show readers of all processes how far the copies are, or without a requirement the
        first one; the position only rises, although a copy may be made again.
        """
        reached = self._served.acknowledged.reached(max(self._require, 1))
        self._engine.cursors.raise_replicated(min(reached, self._engine.flushed_position))

    @property
    def position(self) -> int:
        """The position below which no append waits for copies."""
        if not self._require:
            return _NEVER_WAITS
        reached = self._served.acknowledged.reached(self._require)
        if self._missing_below and reached >= self._missing_below:
            self._missing_below = 0
            _logger.warning("%s: appends wait for copies again", self._engine.path)
        return _NEVER_WAITS if self._missing_below else reached

    def wait(self, end: int, timeout_s: float) -> bool:
        """Wait until enough copies have everything below `end`, which is flushed here; False if the
        time expired.
        """
        if os.getpid() != self._pid:
            raise ForkedError(
                "a log with replicate= waits for its copies only in the process that opened it: "
                "open the log again in this one; the record stays in the log",
                path=self._engine.path,
                position=end,
            )
        if self.position >= end:
            self._show()
            return True
        done = self._served.acknowledged.wait(end - 1, self._require, timeout_s)
        if not done and self._closed.is_set():
            raise ClosedError(
                "the log was closed before the copies had the record: it stays in the log",
                path=self._engine.path,
                position=end,
            )
        return done

    def complete(self, end: int, timeout_s: float) -> None:
        """Wait likewise; if the time expires, raise, or continue without copies."""
        if not self.wait(end, self.limit_s(timeout_s)):
            self.expire(end)

    def expire(self, end: int) -> None:
        """Raise because too few copies have what is below `end`, or continue without them."""
        if self._goes_on:
            self._missing_below = max(self._missing_below, end)
            _logger.warning(
                "%s: fewer than %d copies have position %d in time: appends are acknowledged "
                "without copies until they have caught up",
                self._engine.path,
                self._require,
                end,
            )
            return
        raise SyncTimeoutError(
            f"fewer than {self._require} copies have the record in time: it stays in the log and "
            "may still reach them; do not append it again, and check the followers",
            path=self._engine.path,
            position=end,
        )

    def limit_s(self, sync_timeout_s: float) -> float:
        """Return how long a record waits for copies."""
        return sync_timeout_s if self._timeout_s is None else self._timeout_s

    def close(self) -> None:
        """End every wait, and the serving of the log; a second call does nothing."""
        if not self._closed.is_set() and os.getpid() == self._pid:
            self._closed.set()
            self._end()

    def _fence(self, rank: Rank) -> None:
        """Promise the epoch of a promotion durably, and fail the log."""
        # The engine first: appends end even if the file cannot be written.
        self._engine.fail(REPLACED)
        directory = parts_of(self._served.log).directory
        try:
            lineage.write(directory, replace(lineage.read(directory), fence=rank))
        except (CommitLogError, OSError) as error:
            _logger.error("%s: cannot promise epoch %d: %s", self._engine.path, rank.number, error)
