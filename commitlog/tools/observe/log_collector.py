"""Log collector: the metrics of open logs for a registry of prometheus_client."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from commitlog import CommitLog
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.errors.printable import printable
from commitlog.extension import view_of
from commitlog.queues import QueueStats
from commitlog.stats import FlowStats, Latency, LogStats
from commitlog.tools.observe.queue_metrics import (
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    queue_samples,
    queue_stats_of,
)
from commitlog.tools.observe.watching import WRITER_STATES, LogFigures, LogWatch, look
from commitlog.types import DiskState

try:
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

_logger = logging.getLogger("commitlog.metrics")

# Bounds of the histograms in seconds, from a flush into a drive's cache to a disk that hangs.
_BOUNDS = (*(round(step * 10.0**power, 9) for power in range(-5, 1) for step in (1, 2.5, 5)), 10.0)

# Every log, from what its processes share.
_GAUGES = {
    "first_position_bytes": "Position of the oldest record.",
    "tail_position_bytes": "Position of the next claim.",
    "appended_position_bytes": (
        "End of the prefix in which every claim is published or rolled back."
    ),
    "committed_position_bytes": "End of what is visible to every process.",
    "flushed_position_bytes": "End of what survives a power cut.",
    "replicated_position_bytes": "End of what as many copies have as the writer requires.",
    "replication_lag_bytes": "Bytes that the loss of this machine would lose now.",
    "replication_lag_seconds": "Age of the oldest record that it would lose.",
    "first_sequence": "Sequence of the oldest record.",
    "next_sequence": "Sequence of the next record: the number of all records so far.",
    "segments": "Segment files, those allocated ahead included.",
    "segment_size_bytes": "Size of a segment file.",
    "disk_bytes": "Disk space of the files of the log.",
    "free_disk_bytes": "Free space of the file system for this user.",
    "disk_size_bytes": "Size of the file system.",
    "recovering": "1 while a process recovers the log, or if one was killed while it did.",
}
# A log that this process writes.
_COUNTERS = {
    "appends": "Appends of this process; a batch counts once.",
    "records": "Records appended by this process.",
    "appended_bytes": "Bytes of the frames appended by this process.",
    "committed_bytes": "Bytes that commits of this process covered.",
    "flushed_bytes": "Bytes that flushes led by this process covered.",
    "rolls": "Rolls to the next segment by this process.",
    "dropped_records": "Records not appended because a required tailer lagged too far.",
    "listener_failures": "Exceptions of the segment listener.",
    "dropped_events": "Events dropped because the segment listener was too slow.",
    "refused_claims": "Claims of this process that other handles rolled back.",
}
_LATENCIES = {
    "commit_seconds": "Duration of commits by this process.",
    "flush_seconds": "Duration of flushes led by this process.",
    "sync_seconds": "Time that appends of this process waited for durability.",
    "roll_seconds": "Time that appends of this process waited for the next segment.",
    "claim_wait_seconds": "Time that open claims blocked commits of this process.",
    "lag_wait_seconds": "Time that appends of this process waited for required tailers.",
}
# Every named tailer. If the file of a tailer is damaged, it has only the last one.
_TAILERS = {
    "position_bytes": "Position of the next record for the tailer.",
    "lag_bytes": "Bytes from the tailer to the committed watermark.",
    "required": "1 if retention and appends wait for the tailer.",
    "reading": "1 while a process reads with the tailer.",
    "dropped_records": "Records that writers dropped because the tailer lagged too far.",
    "evicted": "1 after the tailer was evicted.",
    "damaged": "1 if the file of the tailer is damaged.",
}
# Every log that has a store.
_STORE_GAUGES = {
    "stored_position_bytes": "End of what the store has.",
    "store_kept_position_bytes": "End of the segments that the store has whole.",
    "store_lag_bytes": "Bytes that the store does not have yet.",
    "store_lag_seconds": "Age of the oldest record that the store does not have yet.",
    "store_failing": "1 while the log cannot be stored.",
}
_STORE_COUNTERS = {
    "store_failed_rounds": "Rounds of storing that failed and were tried again.",
    "store_requests": "Requests to the store.",
}
_POOL_GAUGES = {
    "pool_buffers": "Buffers of the pool.",
    "pool_available_buffers": "Free buffers of the pool.",
}
_POOL_COUNTERS = {
    "pool_waits": "Times that a log waited for a buffer of the pool.",
    "pool_wait_seconds": "Total time that logs waited for a buffer.",
    "pool_exhausted": "Times that no buffer became free in time.",
}
# Every flow of a log of this process.
_FLOWS = {
    "lag_bytes": "Bytes of the log that a mirror has not sent.",
    "lag_records": "Records that a mirror or a relay has not moved into the log.",
    "lag_seconds": "Age of the oldest of them.",
    "failed": "1 if it has ended with an error, or cannot go on now.",
}
# The fields of metrics that have other names.
_FLAGS = {"required": "required", "reading": "owner", "evicted": "evicted_ns", "damaged": "damage"}
_FIELDS = {
    "segment_size_bytes": "segment_size",
    "stored_position_bytes": "position",
    "store_failing": "is_failing",
    "store_lag_bytes": "lag_bytes",
    "pool_available_buffers": "available",
    **_FLAGS,
}

Kind = type[GaugeMetricFamily] | type[CounterMetricFamily]
Snapshot = tuple[str, LogFigures | None, LogStats | None]
"""Path of a log, its figures, and the statistics of a handle of this process."""


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
        return [*families([]), *queue_families([]), *flow_families([])]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all logs, for a scrape."""
        with self._lock:
            snapshots = [(label_text(log.path), *self._snapshot(log)) for log in self._logs]
            queues = [each for log in self._logs for each in self._queues(log)]
            flows = [each for log in self._logs for each in self._flows(log)]
        found = [*families(snapshots), *queue_families(queues), *flow_families(flows)]
        yield from (family for family in found if family.samples)

    def _queues(self, log: CommitLog | LogWatch) -> list[tuple[str, QueueStats]]:
        if log.path in self._down:
            return []
        return queue_stats_of(log if isinstance(log, CommitLog) else None, log.path)

    def _flows(self, log: CommitLog | LogWatch) -> list[tuple[str, FlowStats]]:
        if log.path in self._down or isinstance(log, LogWatch):
            return []
        return [(log.path, figures()) for figures in tuple(view_of(log).flows.values())]

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


def families(snapshots: Sequence[Snapshot]) -> list[Metric]:
    """Return every metric family, with samples for these logs."""
    up = [(path, figures is not None) for path, figures, _ in snapshots]
    seen = [(path, figures) for path, figures, _ in snapshots if figures is not None]
    own = [(path, stats) for path, _, stats in snapshots if stats is not None]
    stores = [(path, figures.store) for path, figures in seen if figures.store is not None]
    pools = [(path, stats.pool) for path, stats in own if stats.pool is not None]
    return [
        _family(GaugeMetricFamily, "up", "1 if the log could be read at this scrape.", up),
        *_shared(seen),
        _family(
            GaugeMetricFamily,
            "disk",
            "1 for the present state of the free disk space, as this process sees it.",
            (
                (path, state, stats.disk == state)
                for path, stats in own
                for state in get_args(DiskState)
            ),
            "state",
        ),
        *_fields(GaugeMetricFamily, _GAUGES, seen),
        *_fields(CounterMetricFamily, _COUNTERS, own),
        *(
            _histogram(name, text, [(path, getattr(stats, _field_of(name))) for path, stats in own])
            for name, text in _LATENCIES.items()
        ),
        *_fields(GaugeMetricFamily, _STORE_GAUGES, stores),
        *_fields(CounterMetricFamily, _STORE_COUNTERS, stores),
        *_fields(GaugeMetricFamily, _POOL_GAUGES, pools),
        *_fields(CounterMetricFamily, _POOL_COUNTERS, pools),
    ]


def queue_families(queues: Sequence[tuple[str, QueueStats]]) -> list[Metric]:
    """Return the metric families of work queues."""
    stats = [(label_text(path), each) for path, each in queues]
    return [
        _family(kind, f"queue_{name}", text, queue_samples(stats, name), "queue")
        for kind, names in (
            (GaugeMetricFamily, QUEUE_GAUGES),
            (CounterMetricFamily, QUEUE_COUNTERS),
        )
        for name, text in names.items()
    ]


def flow_families(flows: Sequence[tuple[str, FlowStats]]) -> list[Metric]:
    """Return the metric families of mirrors and relays."""
    known = [(label_text(path), label_text(each.name), each) for path, each in flows]
    return [
        _family(
            GaugeMetricFamily,
            f"flow_{name}",
            text,
            ((path, flow, getattr(each, name)) for path, flow, each in known),
            "flow",
        )
        for name, text in _FLOWS.items()
    ]


def _shared(seen: Sequence[tuple[str, LogFigures]]) -> Iterator[Metric]:
    """Yield the metrics that need more than one field of a log."""
    yield _family(
        GaugeMetricFamily,
        "failed",
        "1 after the log has failed for all its processes.",
        ((path, bool(figures.failed)) for path, figures in seen),
    )
    yield _family(
        CounterMetricFamily,
        "rolled_back_claims",
        "Claims of dead or slow writers that were rolled back.",
        ((path, figures.rolled_back_claims) for path, figures in seen),
    )
    states = [(path, Counter(writer.state for writer in figures.writers)) for path, figures in seen]
    yield _family(
        GaugeMetricFamily,
        "writers",
        "Handles that have the log open for writing, by state.",
        ((path, state, counts[state]) for path, counts in states for state in WRITER_STATES),
        "state",
    )
    yield _family(
        CounterMetricFamily,
        "writer_claims",
        "Claims made through a writer's slot.",
        (
            (path, str(writer.slot), writer.claims)
            for path, figures in seen
            for writer in figures.writers
        ),
        "slot",
    )
    tailers = [(path, tailer) for path, figures in seen for tailer in figures.tailers]
    for name, text in _TAILERS.items():
        kind = CounterMetricFamily if name == "dropped_records" else GaugeMetricFamily
        samples = [
            (path, label_text(tailer.name), getattr(tailer, _field_of(name)))
            for path, tailer in tailers
            if tailer.damage is None or name == "damaged"
        ]
        if name in _FLAGS:
            samples = [(path, tailer, bool(value)) for path, tailer, value in samples]
        yield _family(kind, f"tailer_{name}", text, samples, "tailer")


def _field_of(name: str) -> str:
    """Return the field of `LogFigures`, `LogStats`, `TailerState` or `PoolStats` that it shows."""
    if name in _FIELDS:
        return _FIELDS[name]
    name = name.removeprefix("store_")
    if name.endswith("position_bytes"):
        return name.removesuffix("_bytes")
    if name in _LATENCIES:
        return name.removesuffix("_seconds").removesuffix("_wait") + "_latency"
    return name.removeprefix("pool_")


def _fields(
    kind: Kind, names: dict[str, str], sources: Sequence[tuple[str, object]]
) -> Iterator[Metric]:
    for name, text in names.items():
        values = ((path, getattr(source, _field_of(name))) for path, source in sources)
        yield _family(kind, name, text, values)


def _family(
    kind: Kind, name: str, text: str, samples: Iterable[tuple[Any, ...]], *labels: str
) -> Metric:
    """Return a family; a sample is the path, the other labels, and the value if it is known."""
    family = kind(f"commitlog_{name}", text, labels=["log", *labels])
    for *where, value in samples:
        if value is not None:
            family.add_metric(where, value)
    return family


def label_text(name: str) -> str:
    """Return a path or a file name as a label. Prometheus takes UTF-8: other bytes are escaped, and
    so are control characters, because the metrics may be printed.
    """
    return printable(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def _histogram(name: str, text: str, values: Iterable[tuple[str, Latency]]) -> Metric:
    family = HistogramMetricFamily(f"commitlog_{name}", text, labels=["log"])
    for path, latency in values:
        family.add_metric([path], list(_cumulated(latency)), latency.total_ns / 1e9)
    return family


def _cumulated(latency: Latency) -> Iterator[tuple[str, float]]:
    """Yield the cumulated count for each bound. A bucket that a bound cuts in two counts from the
    next bound on.
    """
    buckets = list(reversed(latency.buckets))
    count = 0
    for bound in _BOUNDS:
        while buckets and buckets[-1][0] <= bound * 1e9:
            count += buckets.pop()[1]
        yield str(float(bound)), count
    yield "+Inf", count + sum(more for _, more in buckets)
