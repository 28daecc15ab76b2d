"""Share: the positions that one task reads, of logs that the task itself opens.

Without the rule of `column_pruning.java`, Spark keeps the plan of a data frame's first query for
all others. So such a plan has no segments, no counts and no ends: it cuts the positions of each log
into ranges, the last of them without an end. A task finds out which records its range has now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from commitlog.extension import HEADER_SIZE
from commitlog.spark.plan import LogPartition
from commitlog.spark.spark_topic import SparkTopic

_Spans = Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True)
class Share:
    """A part of a read.

    Attributes
    ----------
    spans : mapping
        The range of positions [start, stop) of each log, by name. A stop of None: no end.
    others_than : frozenset of str or None
        The logs that this or another share names. This share also reads all others, which had no
        records yet or were not there. None: another share does.
    """

    spans: _Spans
    others_than: frozenset[str] | None = None

    def wants(self, name: str) -> bool:
        """Return whether the share reads records of a log of that name."""
        return name in self.spans or (self.others_than is not None and name not in self.others_than)

    def clipped(
        self, ranges: Iterable[tuple[SparkTopic, int, int]]
    ) -> Iterator[tuple[SparkTopic, int, int]]:
        """Yield the parts of some ranges that belong to this share."""
        for topic, start, stop in ranges:
            first, last = self.spans.get(topic.name, (0, None))
            yield topic, max(start, first), stop if last is None else min(stop, last)


class SharePartition(InputPartition):
    """The share of one task."""

    def __init__(self, share: Share) -> None:
        super().__init__(share)
        self.share = share


def shares_of(planned: Sequence[LogPartition]) -> list[SharePartition]:
    """Return the shares that cut the logs where a plan of the records of now does."""
    starts = [_starts(partition) for partition in planned]
    spans: list[dict[str, tuple[int, int | None]]] = []
    following: dict[str, int] = {}
    for each in reversed(starts):
        spans.append({name: (start, following.get(name)) for name, start in each.items()})
        following.update(each)
    first: set[str] = set()
    shares = []
    for each_spans in reversed(spans):
        # The first range of a log begins at 0: what was deleted by now may be there again in
        # another log of this name.
        opened = {
            name: span if name in first else (0, span[1]) for name, span in each_spans.items()
        }
        first.update(opened)
        shares.append(Share(opened))
    last = shares.pop() if shares else Share({})
    return [SharePartition(share) for share in (*shares, Share(last.spans, frozenset(following)))]


def _starts(partition: LogPartition) -> dict[str, int]:
    """Return where a partition begins in each log."""
    found: dict[str, int] = {}
    for piece in partition.slices:
        start = 0 if piece.start <= HEADER_SIZE else piece.start
        found.setdefault(piece.topic, piece.base + start)
    return found
