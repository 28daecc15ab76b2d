"""QueueWatch: snapshots of the work queues of a log, for `commitlog top`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Self

import commitlog
from commitlog import CommitLog
from commitlog.errors import CommitLogError
from commitlog.queues import Queue, QueueStats
from commitlog.queues.opening import FOLDER, queue_names


@dataclass(frozen=True)
class QueueFigures:
    """The figures of a queue, and how many jobs were accepted since the snapshot before."""

    stats: QueueStats
    accepted_per_s: float | None

    def as_object(self) -> dict[str, Any]:
        names = ("name", "depth", "held", "waiting", "dead", "oldest_s", "paused")
        found = {name: getattr(self.stats, name) for name in names}
        return {**found, "accepted_per_s": self.accepted_per_s}


@dataclass
class _Open:
    queue: Queue
    inode: int  # of its leases
    accepted: int | None = None
    taken_s: float = 0.0


class QueueWatch:
    """Take snapshots of the queues of the log at a path; a context manager.

    The queues stay open between two snapshots, so that letters are counted once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._log: CommitLog | None = None
        self._open: dict[str, _Open] = {}

    def look(self) -> list[QueueFigures]:
        """Take a snapshot; a queue that cannot be read is left out."""
        names = queue_names(self._path)
        for name in [each for each in self._open if each not in names]:
            self._close(name)
        found = []
        for name in names:
            try:
                found.append(self._figures(name))
            except (CommitLogError, OSError):  # it is just made, or was removed
                self._close(name)
        return found

    def _figures(self, name: str) -> QueueFigures:
        inode = os.stat(os.path.join(self._path, FOLDER, name, "leases")).st_ino
        if name in self._open and self._open[name].inode != inode:
            self._close(name)
        if name not in self._open:
            if self._log is None:
                self._log = commitlog.open(self._path, "r")
            self._open[name] = _Open(commitlog.queue(self._log, name, mode="r"), inode)
        known = self._open[name]
        stats, now_s = known.queue.stats(), time.monotonic()
        rate = None
        if known.accepted is not None and now_s > known.taken_s:
            rate = max(0, stats.accepted - known.accepted) / (now_s - known.taken_s)
        known.accepted, known.taken_s = stats.accepted, now_s
        return QueueFigures(stats, rate)

    def _close(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is not None:
            known.queue.close()

    def close(self) -> None:
        for name in list(self._open):
            self._close(name)
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
