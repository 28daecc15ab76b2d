"""RetentionService: lets the segments of an open log go that its retention no longer keeps."""

from __future__ import annotations

import logging
import threading

from commitlog.base.service import Service
from commitlog.errors import CommitLogError
from commitlog.retention.pruner import Pruned, Pruner
from commitlog.retention.retention import Retention

_logger = logging.getLogger("commitlog.keep")


class RetentionService(Service):
    """Prunes at the retention's interval; RocketMQ's CleanCommitLogService.

    Parameters
    ----------
    path : str
        The log's.
    retention : Retention
        What may go, and how often to look.
    pruner : Pruner
        Lets it go.
    """

    def __init__(self, path: str, retention: Retention, pruner: Pruner) -> None:
        super().__init__(f"commitlog retention {path}")
        self._path = path
        self._retention = retention
        self._pruner = pruner
        self._ending = threading.Event()
        self._told = ""

    def run(self) -> None:
        while not self._ending.wait(self._retention.interval_s):
            try:
                self._tell(self._pruner.prune(self._retention))
            except (CommitLogError, OSError) as error:
                self._tell_once(f"retention could not go on, and will try again: {error}")

    def _tell(self, pruned: Pruned) -> None:
        if pruned.segments:
            _logger.info(
                "%s: retention let %d segments go, %d bytes",
                self._path,
                len(pruned.segments),
                pruned.bytes,
            )
        if pruned.complete:
            self._told = ""
        else:
            self._tell_once(
                f"retention stops at position {pruned.first_position}: {pruned.stopped_by}"
            )

    def _tell_once(self, what: str) -> None:
        """Say it when it is new, and not at every look."""
        if what != self._told:
            self._told = what
            _logger.warning("%s: %s", self._path, what)

    def join(self, timeout_s: float) -> bool:
        self._ending.set()
        return super().join(timeout_s)
