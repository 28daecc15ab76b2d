"""Where a view of a log begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from commitlog.cli.filter import Filter
from commitlog.log.commit_log import CommitLog
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.tailer import Tailer

_BATCH = 65536


@dataclass(frozen=True)
class Beginning:
    """At most one of these; none leaves a tailer where it stands.

    Attributes
    ----------
    last : int or None
        Before so many of the last records that are to be shown.
    place : {"first", "end"}, int or None
        There.
    sequence : int or None
        Before the record with that sequence.
    timestamp_ns : int or None
        Before the first record that is not older.
    """

    last: int | None = None
    place: Start | None = None
    sequence: int | None = None
    timestamp_ns: int | None = None

    def stand(self, log: CommitLog, tailer: Tailer, chosen: Filter, visibility: Visibility) -> None:
        """Bring a tailer there. One that reads backward begins with the very record that was asked
        for, where one was.
        """
        backward = tailer.direction == "backward"
        if self.last is not None:
            tailer.seek(
                "end"
                if backward or self.last == 0
                else _last_start(log, self.last, chosen, visibility)
            )
        elif self.place is not None:
            tailer.seek(self.place)
        elif self.sequence is not None:
            tailer.seek(sequence=self.sequence)
        elif self.timestamp_ns is not None:
            tailer.seek(timestamp=self.timestamp_ns)
        if backward and (self.sequence is not None or isinstance(self.place, int)):
            tailer.direction = "forward"
            tailer.read()
            tailer.direction = "backward"


def _last_start(log: CommitLog, count: int, chosen: Filter, visibility: Visibility) -> Start:
    """Where the last so many records begin that are to be shown, found from the end. What is
    damaged before them is not met.
    """
    with log.tailer(direction="backward", visibility=visibility, on_damage="skip") as backward:
        while True:
            # Without a filter every record counts.
            batch = backward.read_batch(_BATCH if chosen else min(count, _BATCH))
            if not len(batch):
                return "first"
            rows = chosen.rows(batch) if chosen else np.arange(len(batch))
            if len(rows) >= count:
                return int(batch.positions[rows[count - 1]])
            count -= len(rows)
