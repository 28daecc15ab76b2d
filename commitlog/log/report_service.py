"""ReportService: log warnings from the kernel's counters."""

from __future__ import annotations

import contextlib
import logging
import os
import time

from commitlog._kernel.engine import Committer
from commitlog._kernel.failure import REPLACED
from commitlog.base.service import Service
from commitlog.errors import ClosedError, LogFailedError

_logger = logging.getLogger("commitlog")

SLOW_FLUSH_S = 0.5
_ROUND_S = 1.0
_QUIET_S = 60.0  # between two warnings of one kind


class _Warning:
    """A warning about a rising count: logged at once, then at most once a minute with the sum."""

    def __init__(self, message: str, count: int) -> None:
        self._message = message
        self._reported = count
        self._quiet_until_s = 0.0

    def look(self, count: int, now_s: float, *details: object) -> None:
        if count > self._reported and now_s >= self._quiet_until_s:
            _logger.warning(self._message, *details[:1], count - self._reported, *details[1:])
            self._reported = count
            self._quiet_until_s = now_s + _QUIET_S


class ReportService(Service):
    """Poll the kernel's counters once a second: slow flushes, rolled-back claims, a failure. Write
    the checkpoint of a log that was flushed and is idle.
    """

    def __init__(self, core: Committer) -> None:
        super().__init__(f"commitlog report {core.path}")
        self._core = core
        self._failed = False
        # In the child of a fork, earlier counts are the parent's.
        counters = core.log_counters()
        self._slow_flushes = _Warning(
            "%s: %d flushes took longer than %g s, the longest so far %.3f s: the disk is slow or "
            "overloaded",
            self._slow(),
        )
        self._rolled_back = _Warning(
            "%s: %d claims were rolled back: their owners died, or kept them open for longer than "
            "the claim timeout",
            counters["rolled_back"],
        )
        self._refused = _Warning(
            "%s: other handles rolled back %d claims of this process: it was stopped or too slow",
            self._refusals(),
        )

    def _slow(self) -> int:
        return self._core.count_above("flush", int(SLOW_FLUSH_S * 1e9))

    def _refusals(self) -> int:
        """Count the claims of this handle's slot that other handles turned into SKIP."""
        slots = {slot: rolled_back for slot, _, _, rolled_back, _, _ in self._core.cursors.slots()}
        return 0 if self._core.slot is None else slots.get(self._core.slot, 0)

    def run(self) -> None:
        while not self.ending.wait(_ROUND_S):
            # The flush loop does so, too, if there is one and its interval is not longer.
            with contextlib.suppress(ClosedError, LogFailedError):
                self._core.settle_checkpoint()
            self.look(time.monotonic())
        self.look(time.monotonic())

    def look(self, now_s: float) -> None:
        """Log what is new; `now_s` is a monotonic clock."""
        path = self._core.path
        longest_ns = self._core.latency("flush")[2]
        self._slow_flushes.look(self._slow(), now_s, path, SLOW_FLUSH_S, longest_ns / 1e9)
        self._rolled_back.look(self._core.log_counters()["rolled_back"], now_s, path)
        self._refused.look(self._refusals(), now_s, path)
        if self._core.failed and not self._failed:
            self._failed = True
            if self._core.failed == REPLACED:
                _logger.error("%s: a copy was promoted: nothing is acknowledged any more", path)
                return
            _logger.error(
                "%s: the log has failed (%s): nothing is acknowledged any more; fix the disk, then "
                "close the log and reopen it",
                path,
                os.strerror(self._core.failed),
            )
