"""Metrics of logs for Prometheus: a collector for a registry of prometheus_client, and a text file
for node_exporter.

Needs ``pip install 'commitlog-engine[metrics]'``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, get_args

from commitlog.base.path import path_of
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError, InvalidOptionError, IOFailureError
from commitlog.log.commit_log import CommitLog
from commitlog.observe.watching import WRITER_STATES, LogFigures, LogWatch, look
from commitlog.segment.disk_monitor import DiskState
from commitlog.stats import Latency, LogStats

try:
    from prometheus_client import CollectorRegistry, write_to_textfile
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ModuleNotFoundError(
        "commitlog.metrics needs prometheus_client: pip install 'commitlog-engine[metrics]'"
    ) from error

__all__ = ["LogCollector", "MetricsFile"]

_logger = logging.getLogger("commitlog.metrics")
_SHORTEST_S = 0.1
# The bounds of the histograms, in seconds: from a flush that a drive's cache takes to a disk that
# hangs.
_BOUNDS = (*(round(step * 10.0**power, 9) for power in range(-5, 1) for step in (1, 2.5, 5)), 10.0)

# Of every log, from what its processes share: name, what LogFigures calls it, explanation.
_GAUGES = (
    ("first_position_bytes", "first_position", "Where the oldest record starts."),
    ("tail_position_bytes", "tail_position", "Where the next record will be claimed."),
    (
        "appended_position_bytes",
        "appended_position",
        "The end of the prefix in which everything is published or rolled back.",
    ),
    ("committed_position_bytes", "committed_position", "The end of what every process sees."),
    ("flushed_position_bytes", "flushed_position", "The end of what survives a power cut."),
    ("first_sequence", "first_sequence", "The sequence of the oldest record."),
    (
        "next_sequence",
        "next_sequence",
        "The sequence of the next record: how many there have been.",
    ),
    ("segments", "segments", "Segment files, those ahead of need included."),
    ("segment_size_bytes", "segment_size", "Bytes of a segment file."),
    ("disk_bytes", "disk_bytes", "What the log's files take on the disk."),
    ("free_disk_bytes", "free_bytes", "Room on the log's file system for this user."),
    ("disk_size_bytes", "device_bytes", "The size of the log's file system."),
    ("recovering", "recovering", "1 while somebody recovers the log, or was killed at it."),
)
# Of a log that this process writes: name, what LogStats calls it, explanation.
_COUNTERS = (
    ("appends", "appends", "Appends of this process; a batch is one."),
    ("records", "records", "Records appended by this process."),
    ("appended_bytes", "appended_bytes", "Bytes of their frames."),
    ("committed_bytes", "committed_bytes", "Bytes that commits of this process went over."),
    ("flushed_bytes", "flushed_bytes", "Bytes that flushes led by this process went over."),
    ("rolls", "rolls", "Rolls to another segment by this process."),
    (
        "dropped_records",
        "dropped_records",
        "Records that were not appended, because a required tailer was too far behind.",
    ),
    (
        "listener_failures",
        "listener_failures",
        "Times that a method of the segment listener raised.",
    ),
    ("dropped_events", "dropped_events", "Events that the segment listener was too slow for."),
    ("refused_claims", "refused_claims", "Claims of this process that others rolled back."),
)
_LATENCIES = (
    ("commit_seconds", "commit_latency", "Commits of this process."),
    ("flush_seconds", "flush_latency", "Flushes led by this process."),
    ("sync_seconds", "sync_latency", "What appends of this process waited for the disk."),
    ("roll_seconds", "roll_latency", "What appends of this process waited for the next segment."),
    ("claim_wait_seconds", "claim_latency", "What commits of this process waited for open claims."),
    (
        "lag_wait_seconds",
        "lag_latency",
        "What appends of this process waited for required tailers.",
    ),
)
# Of every named tailer: name, what TailerState calls it, explanation. One whose file is damaged has
# no more than the last.
_TAILERS = (
    (GaugeMetricFamily, "position_bytes", "position", "Where the tailer goes on."),
    (GaugeMetricFamily, "lag_bytes", "lag_bytes", "From there to the committed end of the log."),
    (GaugeMetricFamily, "required", "required", "1 where retention and appends wait for it."),
    (GaugeMetricFamily, "reading", "owner", "1 while somebody reads under the name."),
    (
        CounterMetricFamily,
        "dropped_records",
        "dropped_records",
        "Records that writers dropped because it was too far behind.",
    ),
    (GaugeMetricFamily, "evicted", "evicted_ns", "1 after it was evicted."),
    (GaugeMetricFamily, "damaged", "damage", "1 where its file is damaged."),
)
_FLAGS = ("required", "owner", "evicted_ns", "damage")
_POOL_GAUGES = (
    ("pool_buffers", "buffers", "Buffers of the log's pool."),
    ("pool_available_buffers", "available", "Those that are free."),
)
_POOL_COUNTERS = (
    ("pool_waits", "waits", "Borrowers of the log's pool that had to wait."),
    ("pool_wait_seconds", "wait_seconds", "What they waited, together."),
    ("pool_exhausted", "exhausted", "Borrowers that found no free buffer."),
)


class LogCollector(Collector):
    """Metrics of any number of logs, told anew at each scrape:
    ``registry.register(LogCollector(log))``.

    Every metric begins with ``commitlog_`` and has the label ``log``, the path with which the log
    was opened. A log that cannot be looked at, because it was closed, removed or damaged, has
    ``commitlog_up`` 0 and nothing else.

    Parameters
    ----------
    *logs : CommitLog or LogWatch
        An open log also tells what this process does with it; a
        `commitlog.observe.watching.LogWatch` looks from outside.

    Raises
    ------
    InvalidOptionError
        Two of them have one path, or one of them is no log.
    """

    def __init__(self, *logs: CommitLog | LogWatch) -> None:
        for log in logs:
            if not isinstance(log, CommitLog | LogWatch):
                raise InvalidOptionError(
                    f"a collector takes open logs and LogWatch objects, not {type(log).__name__}"
                )
        twice = [path for path, count in Counter(log.path for log in logs).items() if count > 1]
        if twice:
            raise InvalidOptionError("the same log is given twice", path=twice[0])
        self._logs = logs
        self._lock = threading.Lock()  # scrapes come in threads of their own
        self._before: dict[str, LogFigures] = {}
        self._down: set[str] = set()

    def describe(self) -> Iterable[Metric]:
        """The metrics without samples: registering looks at no log, and two collectors in one
        registry are refused by it.
        """
        return _families([])

    def collect(self) -> Iterator[Metric]:
        """What a registry asks for at a scrape."""
        with self._lock:
            looks = [(_label(log.path), *self._look(log)) for log in self._logs]
        yield from (family for family in _families(looks) if family.samples)

    def _look(self, log: CommitLog | LogWatch) -> tuple[LogFigures | None, LogStats | None]:
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
                _logger.warning("%s cannot be looked at: %s", log.path, error)
            self._down.add(log.path)
            return None, None
        self._down.discard(log.path)
        self._before[log.path] = figures
        return figures, stats


_Look = tuple[str, LogFigures | None, LogStats | None]


def _families(looks: Sequence[_Look]) -> list[Metric]:
    up = GaugeMetricFamily("commitlog_up", "1 where the log could be looked at.", labels=["log"])
    for path, figures, _ in looks:
        up.add_metric([path], figures is not None)
    seen = [(path, figures) for path, figures, _ in looks if figures is not None]
    own = [(path, stats) for path, _, stats in looks if stats is not None]
    pools = [(path, stats.pool) for path, stats in own if stats.pool is not None]
    disk = GaugeMetricFamily(
        "commitlog_disk",
        "1 for what this process makes of the room on the disk.",
        labels=["log", "state"],
    )
    for path, stats in own:
        for state in get_args(DiskState):
            disk.add_metric([path, state], stats.disk == state)
    return [
        up,
        *_shared(seen),
        disk,
        *(
            _gauge(name, text, [(path, getattr(figures, field)) for path, figures in seen])
            for name, field, text in _GAUGES
        ),
        *(
            _counter(name, text, [(path, getattr(stats, field)) for path, stats in own])
            for name, field, text in _COUNTERS
        ),
        *(
            _histogram(name, text, [(path, getattr(stats, field)) for path, stats in own])
            for name, field, text in _LATENCIES
        ),
        *(
            _gauge(name, text, [(path, getattr(pool, field)) for path, pool in pools])
            for name, field, text in _POOL_GAUGES
        ),
        *(
            _counter(name, text, [(path, getattr(pool, field)) for path, pool in pools])
            for name, field, text in _POOL_COUNTERS
        ),
    ]


def _shared(seen: Sequence[tuple[str, LogFigures]]) -> Iterator[Metric]:
    """What has more to it than one number for a log."""
    yield _gauge(
        "failed",
        "1 after the log has failed, for all its processes.",
        [(path, bool(figures.failed)) for path, figures in seen],
    )
    yield _counter(
        "rolled_back_claims",
        "Claims of dead or slow writers that were rolled back.",
        [(path, f.rolled_back_claims) for path, f in seen],
    )
    writers = GaugeMetricFamily(
        "commitlog_writers",
        "Handles that have the log open for writing, by state.",
        labels=["log", "state"],
    )
    claims = CounterMetricFamily(
        "commitlog_writer_claims", "Claims made through a writer's slot.", labels=["log", "slot"]
    )
    for path, figures in seen:
        states = Counter(writer.state for writer in figures.writers)
        for state in WRITER_STATES:
            writers.add_metric([path, state], states[state])
        for writer in figures.writers:
            claims.add_metric([path, str(writer.slot)], writer.claims)
    yield writers
    yield claims
    tailers = [(path, tailer) for path, figures in seen for tailer in figures.tailers]
    for kind, name, field, text in _TAILERS:
        family = kind(f"commitlog_tailer_{name}", text, labels=["log", "tailer"])
        for path, tailer in tailers:
            value = getattr(tailer, field)
            if tailer.damage is None or field == "damage":
                family.add_metric(
                    [path, _label(tailer.name)], bool(value) if field in _FLAGS else value
                )
        yield family


def _label(name: str) -> str:
    """A path or a file's name as Prometheus takes it, which is UTF-8: bytes that are not are
    escaped.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _gauge(name: str, text: str, values: Iterable[tuple[str, float | None]]) -> Metric:
    family = GaugeMetricFamily(f"commitlog_{name}", text, labels=["log"])
    for path, value in values:
        if value is not None:
            family.add_metric([path], value)
    return family


def _counter(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = CounterMetricFamily(f"commitlog_{name}", text, labels=["log"])
    for path, value in values:
        family.add_metric([path], value)
    return family


def _histogram(name: str, text: str, values: Iterable[tuple[str, Latency]]) -> Metric:
    family = HistogramMetricFamily(f"commitlog_{name}", text, labels=["log"])
    for path, latency in values:
        family.add_metric([path], list(_cumulated(latency)), latency.total_ns / 1e9)
    return family


def _cumulated(latency: Latency) -> Iterator[tuple[str, float]]:
    """Counts up to each bound. A bucket of ours that a bound cuts in two counts from the next bound
    on.
    """
    buckets = list(reversed(latency.buckets))
    count = 0
    for bound in _BOUNDS:
        while buckets and buckets[-1][0] <= bound * 1e9:
            count += buckets.pop()[1]
        yield str(float(bound)), count
    yield "+Inf", count + sum(more for _, more in buckets)


class MetricsFile:
    """Keeps a text file of metrics for node_exporter's textfile collector, or whoever else reads
    such files; a context manager.

    It is written when this is made, at each interval out of a thread, and at `close`, each time
    whole under another name and then renamed. A write that fails later is said in the log, once,
    and tried again; the file keeps what it had, and its age tells.

    Parameters
    ----------
    path : str or path-like
        The file. node_exporter reads those that end in ``.prom``.
    *logs : CommitLog or LogWatch
        As for `LogCollector`.
    interval : float or str, optional
        Seconds, or text like ``"15s"``. None: it is written when this is made, and when `write` is
        called.

    Raises
    ------
    InvalidOptionError
        The interval is none, or below 0.1 s.
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
            It cannot be.
        """
        try:
            write_to_textfile(self.path, self._registry)
        except OSError as error:
            raise IOFailureError(
                f"the metrics cannot be written: {error.strerror}",
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
        """Write the file a last time, and stop. Idempotent.

        Raises
        ------
        IOFailureError
            It could not be written; the thread has stopped all the same.
        """
        if self._interval_s is not None and not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self.write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
