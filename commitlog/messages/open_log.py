"""What the topics need of an open log beside its public methods."""

from __future__ import annotations

from collections.abc import Callable

from commitlog import CommitLog
from commitlog._kernel.engine import Engine
from commitlog.log.parts import parts_of
from commitlog.stats import TopicStats


def check_open(log: CommitLog) -> None:
    """Raise `ClosedError` if the log is closed."""
    parts_of(log).check_open()


def close_with(log: CommitLog, close: Callable[[], object]) -> None:
    """Call a function when the log is closed."""
    parts_of(log).guests.callback(close)


def engine_of(log: CommitLog) -> Engine:
    """Return the engine, which appends lists of records that need their positions."""
    return parts_of(log).engine


def sequence_at(log: CommitLog, position: int) -> int:
    """Return the sequence of the record at a position, or of the next one at the end."""
    check_open(log)
    return parts_of(log).index.sequence_of(position)


def stats_of(log: CommitLog, topic: str) -> TopicStats:
    """Return what is counted of a topic whose layers change the size of messages."""
    return parts_of(log).topics.setdefault(topic, TopicStats())
