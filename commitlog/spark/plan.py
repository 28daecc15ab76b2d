"""The plan of a read: which task reads which slices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from commitlog.spark.slices import Slice
from commitlog.spark.topics import Topic

# As large as Spark's own splits of files. With fewer bytes than that there is a task for every core, if each then has enough to do.
LARGEST_BYTES = 128 << 20
WORTHWHILE_BYTES = 4 << 20


class LogPartition(InputPartition):
    """What one task reads.

    Parameters
    ----------
    slices : tuple of Slice
        In order.
    """

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__(slices)
        self.slices = slices


def tasks_for(size_bytes: int, least: int) -> int:
    """How many tasks so many bytes are read with."""
    cores = os.cpu_count() or 1
    return max(least, -(-size_bytes // LARGEST_BYTES), min(cores, -(-size_bytes // WORTHWHILE_BYTES)), 1)


def partitions_of(
    ranges: Iterable[tuple[Topic, int, int]], *, least: int, with_sequence: bool, fail_on_data_loss: bool
) -> list[LogPartition]:
    """Partitions of about the same number of bytes, for ranges of positions of some topics.

    Parameters
    ----------
    ranges : iterable of (Topic, int, int)
        Each [start, stop).
    least : int
        At least so many, if there are as many places to cut at.
    """
    found = [
        (topic, piece)
        for topic, start, stop in ranges
        if start < stop
        for piece in topic.slices(start, stop, with_sequence=with_sequence, fail_on_data_loss=fail_on_data_loss)
    ]
    total_bytes = sum(piece.read_bytes for _, piece in found)
    target_bytes = -(-total_bytes // tasks_for(total_bytes, least))
    return [LogPartition(slices) for slices in _dealt(found, target_bytes, with_sequence)]


def _dealt(found: list[tuple[Topic, Slice]], target_bytes: int, with_sequence: bool) -> Iterator[tuple[Slice, ...]]:
    """Fill one partition after the other up to the target; a slice goes on in the next one from where it was cut."""
    filling: list[Slice] = []
    room_bytes = target_bytes
    for topic, whole in found:
        rest: Slice | None = whole
        while rest is not None and rest.read_bytes > room_bytes:
            head, tail = _cut(topic, rest, room_bytes, with_sequence)
            if tail is None and filling:  # it cannot be cut: it is better in a partition of its own
                yield tuple(filling)
                filling, room_bytes = [], target_bytes
                continue
            filling.append(head)
            rest = tail
            yield tuple(filling)
            filling, room_bytes = [], target_bytes
        if rest is not None:
            filling.append(rest)
            room_bytes -= rest.read_bytes
    if filling:
        yield tuple(filling)


def _cut(topic: Topic, piece: Slice, room_bytes: int, with_sequence: bool) -> tuple[Slice, Slice | None]:
    """A slice in two, the first of them of so many bytes or as few more as can be; the second is None where it cannot be cut."""
    room_bytes = max(room_bytes, 1)
    while room_bytes < piece.read_bytes:
        at = topic.boundary(piece.base + piece.scan + room_bytes) - piece.base
        if at > max(piece.start, piece.scan):
            sequence = topic.sequence_of(piece.base + at) if with_sequence else None
            return replace(piece, stop=at), replace(piece, scan=at, start=at, sequence=sequence)
        room_bytes *= 2
    return piece, None
