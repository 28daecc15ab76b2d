"""The metrics of the work queues of logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import commitlog
from commitlog import CommitLog
from commitlog.errors import CommitLogError
from commitlog.queues import QueueStats
from commitlog.queues.opening import queue_names

QUEUE_GAUGES = {
    "depth": "Jobs that are not finished.",
    "held": "Jobs that workers hold.",
    "waiting": "Jobs that wait for the time of their next attempt.",
    "dead": "Dead letters.",
    "lag_bytes": "Bytes of the log that no worker has looked at.",
    "oldest_seconds": "Age of the oldest record that is not finished.",
    "paused": "1 while the queue is drained.",
    "workers": "Processes that work for the queue.",
}
QUEUE_COUNTERS = {
    "taken": "Jobs that were handed out since the leases were made.",
    "accepted": "Jobs that were accepted.",
    "released": "Jobs that were released.",
    "expired": "Leases that ended.",
    "orphaned": "Jobs of workers that died.",
    "died": "Jobs that became dead letters.",
}

_logger = logging.getLogger("commitlog.metrics")

Sample = tuple[str, str, float | None]


def queue_stats_of(log: CommitLog | None, path: str) -> list[tuple[str, QueueStats]]:
    """Return the figures of the queues of a log, by its label; those that cannot be read are left
    out, with a warning.
    """
    found = []
    for name in queue_names(path):
        try:
            with commitlog.queue(path if log is None else log, name, mode="r") as queue:
                found.append((path, queue.stats()))
        except (CommitLogError, OSError) as error:
            _logger.warning("%s: no metrics of queue %s: %s", path, name, error)
    return found


def queue_samples(stats: Sequence[tuple[str, QueueStats]], metric: str) -> Iterator[Sample]:
    """Yield path, queue and value of a metric."""
    for path, each in stats:
        value: float | None
        if metric == "oldest_seconds":
            value = each.oldest_s
        elif metric == "workers":
            value = len(each.workers)
        else:
            value = getattr(each, metric)
        yield path, each.name, value
