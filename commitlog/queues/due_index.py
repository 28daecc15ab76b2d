"""DueIndex: positions by the time at which they are due, in 16 bytes each. No I/O."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

_HEAP_MOST = 4096

_Table = NDArray[np.int64]


class DueIndex:
    """Positions and their times. New ones go to a small heap, which is merged into arrays."""

    def __init__(self, due: _Table | None = None, positions: _Table | None = None) -> None:
        self._due: _Table = np.empty(0, np.int64) if due is None else due
        self._positions: _Table = np.empty(0, np.int64) if positions is None else positions
        self._heap: list[tuple[int, int]] = []
        order = np.lexsort((self._positions, self._due))
        self._due, self._positions = self._due[order], self._positions[order]
        self._next = 0

    def __len__(self) -> int:
        return len(self._due) - self._next + len(self._heap)

    def add(self, due_ns: int, position: int) -> None:
        heapq.heappush(self._heap, (due_ns, position))
        if len(self._heap) > _HEAP_MOST + len(self) // 16:
            self._merge()

    def _merge(self) -> None:
        new = np.array(self._heap, np.int64).reshape(-1, 2)
        due = np.concatenate((self._due[self._next :], new[:, 0]))
        positions = np.concatenate((self._positions[self._next :], new[:, 1]))
        order = np.lexsort((positions, due))
        self._due, self._positions = due[order], positions[order]
        self._heap, self._next = [], 0

    @property
    def next_ns(self) -> int | None:
        """When the next one is due."""
        times = [self._heap[0][0]] if self._heap else []
        if self._next < len(self._due):
            times.append(int(self._due[self._next]))
        return min(times, default=None)

    def pop_due(self, now_ns: int, most: int) -> list[int]:
        """Remove and return up to `most` positions that are due, by their times."""
        found: list[int] = []
        while len(found) < most:
            due_ns = self.next_ns
            if due_ns is None or due_ns > now_ns:
                break
            if self._heap and self._heap[0][0] == due_ns:
                found.append(heapq.heappop(self._heap)[1])
            else:
                found.append(int(self._positions[self._next]))
                self._next += 1
        return found

    @property
    def lowest(self) -> int | None:
        """The lowest position."""
        rest = self._positions[self._next :]
        low = [int(rest.min())] if len(rest) else []
        return min([*low, *(position for _, position in self._heap)], default=None)
