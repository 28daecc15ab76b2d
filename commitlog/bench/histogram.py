"""Latencies in HdrHistogram's format, three significant digits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
_LOWEST_NS, _HIGHEST_NS, _DIGITS = 1, 3600 * 10**9, 3
_EXACT_BITS = 11  # three digits: 2048 steps, below which every nanosecond has its own
_TICKS = 5


def _new() -> Any:
    from hdrh.histogram import HdrHistogram

    return HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)


def _nothing() -> npt.NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass
class Histogram:
    """All latencies of a case, over all of its turns.

    Percentiles come from the steps that hold something: to ask the histogram itself takes tens of
    milliseconds each.

    Attributes
    ----------
    largest_ns : int
        The largest one, exactly.
    """

    largest_ns: int = 0
    _histogram: Any = field(default_factory=_new)
    _upto: npt.NDArray[np.int64] = field(default_factory=_nothing)  # the largest value of each step
    _counts: npt.NDArray[np.int64] = field(default_factory=_nothing)  # up to and with each step
    _object: dict[str, object] = field(default_factory=dict)

    def add(self, latencies_ns: npt.NDArray[np.int64]) -> None:
        """Take an array of latencies. They are brought to the histogram's steps at once, so that it
        is given thousands, not millions.
        """
        if not len(latencies_ns):
            return
        self._object = {}
        values = np.clip(latencies_ns, _LOWEST_NS, _HIGHEST_NS)
        self.largest_ns = max(self.largest_ns, int(values.max()))
        _, exponents = np.frexp(values.astype(np.float64))
        shifts = np.maximum(exponents - _EXACT_BITS, 0)
        steps, counts = np.unique((values >> shifts) + 1 << shifts, return_counts=True)
        for value, count in zip((steps - 1).tolist(), counts.tolist(), strict=True):
            self._histogram.record_value(value, count)
        upto, places = np.unique(np.concatenate([self._upto, steps - 1]), return_inverse=True)
        each = np.bincount(places, np.concatenate([np.diff(self._counts, prepend=0), counts]))
        self._upto, self._counts = upto, np.cumsum(each).astype(np.int64)

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def _reached(self, wanted: float) -> int:
        """Nanoseconds that at least so many did not exceed."""
        return min(int(self._upto[np.searchsorted(self._counts, wanted)]), self.largest_ns)

    def at(self, percentile: float) -> int:
        """Nanoseconds that this share of all did not exceed; 0 where there are none."""
        return self._reached(max(1, int(percentile * self.count / 100 + 0.5))) if self.count else 0

    def curve(self) -> list[tuple[float, int]]:
        """Percentiles, closer together towards 100, and their nanoseconds."""
        points: list[tuple[float, int]] = []
        left = 100.0
        while self.count and (not points or points[-1][1] < self.largest_ns):
            points.append((100 - left, self._reached((100 - left) / 100 * self.count)))
            left -= left / (2 * _TICKS)
        return [*points, (100.0, self.largest_ns)] if self.count else []

    def as_object(self) -> dict[str, object]:
        """For JSON: the figures, the curve, and the histogram itself as HdrHistogram's tools read
        it (V2, compressed, base64).

        It is kept until more is added: to encode a histogram takes tens of milliseconds, and a run
        is written after each workload.
        """
        if not self._object:
            figures: dict[str, object] = {
                name: self.at(percentile) for name, percentile in PERCENTILES.items()
            }
            encoded = self._histogram.encode()
            text = encoded.decode() if isinstance(encoded, bytes) else str(encoded)
            self._object = figures | {
                "max": self.largest_ns,
                "count": self.count,
                "curve": self.curve(),
                "hdr": text,
            }
        return self._object
