"""Log collector: the metrics of open logs for a registry of prometheus_client."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator

from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.log.commit_log import CommitLog
from commitlog.observe.metric_families import families, label_text
from commitlog.observe.prometheus import Collector, Metric
from commitlog.observe.watching import LogFigures, LogWatch, look
from commitlog.stats import LogStats

_logger = logging.getLogger("commitlog.metrics")


class LogCollector(Collector):
    """Collect the metrics of logs at each scrape: ``registry.register(LogCollector(log))``.

    Every metric begins with ``commitlog_`` and has the label ``log``, the path with which the log
    was opened. If a log cannot be read because it was closed, removed or damaged, its
    ``commitlog_up`` is 0 and it has no other metric.

    Parameters
    ----------
    *logs : CommitLog or LogWatch
        An open log also has the metrics of this process. A `commitlog.watching.LogWatch` has only
        those that other processes see.

    Raises
    ------
    InvalidOptionError
        Two of them have the same path, or one of them is not a log.
    """

    def __init__(self, *logs: CommitLog | LogWatch) -> None:
        for log in logs:
            if not isinstance(log, CommitLog | LogWatch):
                raise InvalidOptionError(
                    f"a LogCollector takes CommitLog and LogWatch objects, not {type(log).__name__}"
                )
        twice = [path for path, count in Counter(log.path for log in logs).items() if count > 1]
        if twice:
            raise InvalidOptionError("the log is given twice: pass it once", path=twice[0])
        self._logs = logs
        self._lock = threading.Lock()  # each scrape runs in a thread of its own
        self._before: dict[str, LogFigures] = {}
        self._down: set[str] = set()

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples, so that registering reads no log and a registry can
        refuse a second collector.
        """
        return families([])

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all logs, for a scrape."""
        with self._lock:
            snapshots = [(label_text(log.path), *self._snapshot(log)) for log in self._logs]
        yield from (family for family in families(snapshots) if family.samples)

    def _snapshot(self, log: CommitLog | LogWatch) -> tuple[LogFigures | None, LogStats | None]:
        try:
            if isinstance(log, LogWatch):
                figures, stats = log.look(), None
            else:
                figures, stats = (
                    look(log, self._before.get(log.path)),
                    log.stats() if log.mode != "r" else None,
                )
        except (CommitLogError, OSError) as error:
            if log.path not in self._down:
                _logger.warning("%s: no metrics: %s", log.path, error)
            self._down.add(log.path)
            return None, None
        self._down.discard(log.path)
        self._before[log.path] = figures
        return figures, stats
