"""Spans: a set of positions, as ascending spans that do not touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Span = tuple[int, int]  # start, and stop, which is not in it


class Spans:
    """A set of positions. Adding and removing at the end is fast."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __iter__(self) -> Iterator[Span]:
        return zip(self._starts, self._stops, strict=True)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def end(self) -> int:
        """Where the last span stops; 0 if there is none."""
        return self._stops[-1] if self._stops else 0

    def add(self, start: int, stop: int) -> None:
        if start >= stop:
            return
        # Those that touch [start, stop) become one with it.
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def remove(self, start: int, stop: int) -> None:
        if start >= stop:
            return
        first = bisect_right(self._stops, start)
        last = bisect_left(self._starts, stop)
        if first >= last:
            return
        left = (self._starts[first], start)
        right = (stop, self._stops[last - 1])
        kept = [span for span in (left, right) if span[0] < span[1]]
        self._starts[first:last] = [span[0] for span in kept]
        self._stops[first:last] = [span[1] for span in kept]

    def gaps(self, start: int, stop: int) -> list[Span]:
        """Return what of [start, stop) is not in the set."""
        found = []
        for low, high in self:
            if low >= stop:
                break
            if low > start:
                found.append((start, low))
            start = max(start, high)
        if start < stop:
            found.append((start, stop))
        return found

    def __contains__(self, position: int) -> bool:
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position < self._stops[index]
