"""StoreGap: positions that a log deleted before they were stored, recorded in its store."""

from __future__ import annotations

import re
from dataclasses import dataclass

from commitlog.stores.target import Target

_NAME = re.compile(r"^([0-9]{20})-([0-9]{20})\.gap$")


@dataclass(frozen=True, order=True)
class StoreGap:
    """The positions from `start` to `stop`, in an empty object that is named by them."""

    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.start:020d}-{self.stop:020d}.gap"

    @classmethod
    def named(cls, name: str) -> StoreGap | None:
        """Read a name; None if it is not that of a gap."""
        match = _NAME.match(name)
        return None if match is None else cls(int(match[1]), int(match[2]))

    def is_possible(self, segment_size: int) -> bool:
        """Return whether a log can have recorded the gap: it goes on with a whole segment."""
        return self.start < self.stop and self.stop % segment_size == 0

    def last(self, segment_size: int) -> int:
        """Return the number of the last segment in the gap. If the store has it, there is none."""
        return self.stop // segment_size - 1

    def put(self, target: Target) -> None:
        """Record the gap; it may be recorded already."""
        target.put(self.name, lambda file: None, replace=False)
