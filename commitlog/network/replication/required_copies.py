"""RequiredCopies: an append waits until so many copies have its record durably."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from commitlog.base.host import host
from commitlog.errors import ClosedError, CommitLogError, ForkedError, SyncTimeoutError
from commitlog.extension import LogView, Rank
from commitlog.network.replication.acknowledgements import replaced

_logger = logging.getLogger("commitlog.replication")
_NEVER_WAITS = 1 << 63
_SLICE_S = 0.05  # how long a wait may delay Ctrl-C


class RequiredCopies:
    """The copies that acknowledge the appends of one open log.

    If a copy was promoted, the log promises its epoch durably and fails for all its processes.

    Parameters
    ----------
    log : LogView
        The log.
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
        log: LogView,
        require: int,
        timeout_s: float | None,
        *,
        goes_on: bool,
        end: Callable[[], None],
    ) -> None:
        self._log = log
        self._require = require
        self._timeout_s = timeout_s
        self._goes_on = goes_on
        self._end = end
        self._missing_below = 0  # until the copies are there, appends continue without them
        self._later_epoch = 0
        self._pid = os.getpid()
        self._closed = host.event()
        log.begin_copies()

    @property
    def position(self) -> int:
        """The position below which no append waits for copies."""
        if not self._require:
            return _NEVER_WAITS
        reached = self._log.copied_position
        if self._missing_below and reached >= self._missing_below:
            self._missing_below = 0
            _logger.warning("%s: appends wait for copies again", self._log.path)
        return _NEVER_WAITS if self._missing_below and not self._later_epoch else reached

    def wait(self, end: int, timeout_s: float) -> bool:
        """Wait until enough copies have everything below `end`, which is flushed here; False if the
        time expired.
        """
        if os.getpid() != self._pid:
            raise ForkedError(
                "a log with replicate= waits for its copies only in the process that opened it: "
                "open the log again in this one; the record stays in the log",
                path=self._log.path,
                position=end,
            )
        deadline_s = None
        while True:
            seen = self._log.signal("copied")
            position = self.position
            if position >= end:
                self._log.raise_copied(self._log.copied_position)  # which is durable here by now
                return True
            self._check(end)
            now_s = host.monotonic()
            deadline_s = now_s + timeout_s if deadline_s is None else deadline_s
            if now_s >= deadline_s:
                return False
            self._log.wait("copied", seen, min(deadline_s - now_s, _SLICE_S))

    def _check(self, end: int) -> None:
        if self._later_epoch:
            raise replaced(self._log.path, self._later_epoch)
        if self._closed.is_set():
            raise ClosedError(
                "the log was closed before the copies had the record: it stays in the log",
                path=self._log.path,
                position=end,
            )

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
                self._log.path,
                self._require,
                end,
            )
            return
        raise SyncTimeoutError(
            f"fewer than {self._require} copies have the record in time: it stays in the log and "
            "may still reach them; do not append it again, and check the followers",
            path=self._log.path,
            position=end,
        )

    def limit_s(self, sync_timeout_s: float) -> float:
        """Return how long a record waits for copies."""
        return sync_timeout_s if self._timeout_s is None else self._timeout_s

    def close(self) -> None:
        """End every wait, and the serving of the log; a second call does nothing."""
        if not self._closed.is_set() and os.getpid() == self._pid:
            self._closed.set()
            self._log.wake_copied()
            self._end()

    def fence(self, rank: Rank) -> None:
        """Fail the log, and promise durably the epoch of a copy that was promoted."""
        if rank.number <= self._later_epoch:
            return
        # First: appends end even if the file cannot be written.
        self._log.fail_replaced()
        self._later_epoch = rank.number
        self._log.wake_copied()
        try:
            self._log.epochs.change(lambda known: known.fenced(rank))
        except (CommitLogError, OSError) as error:
            _logger.error("%s: cannot promise epoch %d: %s", self._log.path, rank.number, error)
