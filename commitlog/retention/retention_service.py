"""RetentionService: prune an open log at intervals."""

from __future__ import annotations

import logging

from commitlog.base.service import Service
from commitlog.errors import CommitLogError
from commitlog.retention.pruner import Pruned, Pruner
from commitlog.retention.retention import Retention

_logger = logging.getLogger("commitlog.keep")


class RetentionService(Service):
    """Prune at the retention's interval; RocketMQ's CleanCommitLogService."""

    def __init__(self, path: str, retention: Retention, pruner: Pruner) -> None:
        super().__init__(f"commitlog retention {path}")
        self._path = path
        self._retention = retention
        self._pruner = pruner
        self._warned = ""

    def run(self) -> None:
        while not self.ending.wait(self._retention.interval):
            try:
                self._report(self._pruner.prune(self._retention))
            except (CommitLogError, OSError) as error:
                self._warn_once(f"retention failed and will try again: {error}")

    def _report(self, pruned: Pruned) -> None:
        if pruned.segments:
            _logger.info(
                "%s: retention deleted %d segments, %d bytes",
                self._path,
                len(pruned.segments),
                pruned.bytes,
            )
        if pruned.complete:
            self._warned = ""
        else:
            self._warn_once(
                f"retention stops at the segment at position {pruned.first_position}: "
                f"{pruned.stopped_by}"
            )

    def _warn_once(self, what: str) -> None:
        if what != self._warned:
            self._warned = what
            _logger.warning("%s: %s", self._path, what)
