"""The plan of a read: which task reads which slices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from commitlog.spark.slices import Slice
from commitlog.spark.spark_topic import SparkTopic

# The size of Spark's own file splits. A smaller read has a task for each core, as long as a task
# has WORTHWHILE_BYTES.
LARGEST_BYTES = 128 << 20
WORTHWHILE_BYTES = 4 << 20


def _whole(_topic: SparkTopic, piece: Slice) -> Slice:
    return piece


class LogPartition(InputPartition):
    """The slices that one task reads."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__(slices)
        self.slices = slices


def cores() -> int:
    """Return the number of cores of this machine."""
    return os.cpu_count() or 1


def tasks_for(size_bytes: int, least: int, parallelism: int) -> int:
    """Return the number of tasks for a read of `size_bytes`, in a session that runs `parallelism`
    tasks at once.
    """
    return max(
        least,
        -(-size_bytes // LARGEST_BYTES),
        min(parallelism, -(-size_bytes // WORTHWHILE_BYTES)),
        1,
    )


def partitions_of(
    ranges: Iterable[tuple[SparkTopic, int, int]],
    *,
    least: int,
    parallelism: int,
    with_sequence: bool,
    counts: bool = False,
    fail_on_data_loss: bool,
    listed: Callable[[SparkTopic, Slice], Slice | None] = _whole,
) -> list[LogPartition]:
    """Plan partitions of about equal size for ranges [start, stop) of positions of some topics.

    There are at least `least`, if the ranges can be cut into as many. `parallelism` tasks run at
    once. `counts`: no column needs the records themselves, so a slice whose records the seals and
    the index count is not read. `listed` gives the slices without sequences the offsets of their
    records, and drops those that have none.
    """
    with_sequence = with_sequence or counts
    found = [
        (topic, replace(piece, records=topic.records_in(piece)) if counts else piece)
        for topic, start, stop in ranges
        if start < stop
        for whole in topic.slices(
            start, stop, with_sequence=with_sequence, fail_on_data_loss=fail_on_data_loss
        )
        if (piece := whole if with_sequence else listed(topic, whole)) is not None
    ]
    total_bytes = sum(piece.read_bytes for _, piece in found)
    return [
        LogPartition(slices)
        for slices in _dealt(
            found, total_bytes, tasks_for(total_bytes, least, parallelism), with_sequence
        )
    ]


def _dealt(
    found: list[tuple[SparkTopic, Slice]], total_bytes: int, count: int, with_sequence: bool
) -> Iterator[tuple[Slice, ...]]:
    """Distribute slices over `count` partitions, each cut as near to its share of all bytes as the
    index allows.

    A share is counted from the first byte of the whole read. So a partition that is cut short
    makes the next one larger, and no small rest remains at the end.
    """
    filling: list[Slice] = []
    dealt_bytes = made = 0
    for topic, whole in found:
        rest: Slice | None = whole
        while rest is not None:
            room_bytes = total_bytes * (made + 1) // count - dealt_bytes
            head, tail = _cut(topic, rest, room_bytes, with_sequence)
            too_large = bool(filling) and head.read_bytes > 2 * room_bytes
            if not too_large:
                filling.append(head)
                dealt_bytes += head.read_bytes
                rest = tail
            if too_large or tail is not None or head.read_bytes >= room_bytes:
                yield tuple(filling)
                filling = []
                made = max(made + 1, dealt_bytes * count // total_bytes)
    if filling:
        yield tuple(filling)


def _cut(
    topic: SparkTopic, piece: Slice, room_bytes: int, with_sequence: bool
) -> tuple[Slice, Slice | None]:
    """Cut a slice in two. The first ends at the last boundary within `room_bytes`. If there is
    none, `room_bytes` doubles. The second is None if the slice has no boundary, or is listed.
    """
    if piece.listed is not None:
        return piece, None
    room_bytes = max(room_bytes, 1)
    most_bytes = piece.read_bytes - 1
    while room_bytes <= most_bytes:
        at = topic.boundary(piece.base + piece.scan + room_bytes) - piece.base
        if at > max(piece.start, piece.scan):
            sequence = topic.sequence_of(piece.base + at) if with_sequence else None
            before = after = None
            if piece.records is not None and piece.sequence is not None and sequence is not None:
                before = sequence - piece.sequence
                after = piece.records - before
            return (
                replace(piece, stop=at, records=before),
                replace(piece, scan=at, start=at, sequence=sequence, records=after),
            )
        room_bytes = most_bytes + 1 if room_bytes == most_bytes else min(room_bytes * 2, most_bytes)
    return piece, None
