"""Metrics file: a text file of metrics for the textfile collector of node_exporter."""

from __future__ import annotations

import logging
import os
import threading
from typing import Self

from commitlog.base.path import path_of
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.log.commit_log import CommitLog
from commitlog.observe.log_collector import LogCollector
from commitlog.observe.prometheus import CollectorRegistry, write_to_textfile
from commitlog.observe.watching import LogWatch

_logger = logging.getLogger("commitlog.metrics")
_SHORTEST_S = 0.1


class MetricsFile:
    """Keep a text file of metrics, for the textfile collector of node_exporter; a context manager.

    The constructor, a thread at each interval, and `close` write the file: under a temporary name,
    which then replaces the old file. If the thread cannot write, it logs one warning, keeps the old
    file, and tries again at the next interval.

    Parameters
    ----------
    path : str or path-like
        The file. node_exporter reads files that end in ``.prom``.
    *logs : CommitLog or LogWatch
        As for `LogCollector`.
    interval : float or str, optional
        Seconds, at least 0.1, or text such as ``"15s"``. None: only the constructor and `write`
        write the file.

    Raises
    ------
    InvalidOptionError
        The interval is not a duration, or below 0.1 s.
    IOFailureError
        The file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *logs: CommitLog | LogWatch,
        interval: Duration | None = "15s",
    ) -> None:
        self.path = path_of(path)
        self._interval_s = None if interval is None else parse_duration(interval, "interval")
        if self._interval_s is not None and self._interval_s < _SHORTEST_S:
            raise InvalidOptionError(
                f"interval must be at least {_SHORTEST_S:g} s, not {interval!r}"
            )
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(LogCollector(*logs))
        self._failing = False
        self.write()
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"commitlog metrics {self.path}", daemon=True
        )
        if self._interval_s is not None:
            self._thread.start()

    def write(self) -> None:
        """Write the file now.

        Raises
        ------
        IOFailureError
            The file cannot be written.
        """
        try:
            write_to_textfile(self.path, self._registry)
        except OSError as error:
            raise IOFailureError(
                f"cannot write the metrics: {error.strerror}",
                path=self.path,
                errno=error.errno,
            ) from error

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            try:
                self.write()
                self._failing = False
            except IOFailureError as error:
                if not self._failing:
                    _logger.warning("%s", error)
                self._failing = True

    def close(self) -> None:
        """Stop the thread, and write the file a last time; idempotent.

        Raises
        ------
        IOFailureError
            The file cannot be written. The thread has stopped.
        """
        if self._interval_s is not None and not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self.write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
