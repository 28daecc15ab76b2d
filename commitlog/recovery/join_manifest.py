"""Manifest: the batches of streaming queries that a log holds, so that none is joined twice.

A query's batches are numbered consecutively, so the last number of each query is enough.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from commitlog.errors import CorruptSegmentError
from commitlog.recovery import checked_json
from commitlog.segment.directory import LogDirectory

NAME = "joined"
_QUERIES_KEPT = 1000  # the most recent ones


@dataclass
class Manifest:
    """The last batch of each query, and when it was joined."""

    batches: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: LogDirectory) -> Manifest:
        """Read the manifest in the log's directory; refuse a damaged or a newer one."""
        content = checked_json.read(directory, NAME)
        if content is None:
            return cls()
        try:
            return cls(
                {
                    str(query): (int(batch), int(joined_ns))
                    for query, (batch, joined_ns) in content["batches"].items()
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CorruptSegmentError(
                f"`{NAME}` does not list the batches in this log: run `commitlog repair` on the "
                "log",
                path=os.path.join(directory.path, NAME),
            ) from None

    def has(self, query: str, batch: int) -> bool:
        """Return whether a batch of a query is in the log."""
        return query in self.batches and batch <= self.batches[query][0]

    def add(self, directory: LogDirectory, query: str, batch: int) -> None:
        """Record a batch durably."""
        if self.has(query, batch):
            return
        self.batches[query] = (batch, time.time_ns())
        kept = sorted(self.batches.items(), key=lambda entry: entry[1][1])[-_QUERIES_KEPT:]
        self.batches = dict(kept)
        checked_json.write(directory, NAME, {"batches": self.batches})
