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


@dataclass
class Histogram:
    """All latencies of a case, over all of its turns.

    Attributes
    ----------
    largest_ns : int
        The largest one, exactly.
    """

    largest_ns: int = 0
    _histogram: Any = field(default_factory=_new)
    _object: dict[str, object] = field(default_factory=dict)

    def add(self, latencies_ns: npt.NDArray[np.int64]) -> None:
        """Take an array of latencies. They are brought to the histogram's steps at once, so that it is given thousands, not millions."""
        if not len(latencies_ns):
            return
        self._object = {}
        values = np.clip(latencies_ns, _LOWEST_NS, _HIGHEST_NS)
        self.largest_ns = max(self.largest_ns, int(values.max()))
        _, exponents = np.frexp(values.astype(np.float64))
        shifts = np.maximum(exponents - _EXACT_BITS, 0)
        steps, counts = np.unique(values >> shifts << shifts, return_counts=True)
        for value, count in zip(steps.tolist(), counts.tolist(), strict=True):
            self._histogram.record_value(value, count)

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def at(self, percentile: float) -> int:
        """Nanoseconds that this share of all did not exceed."""
        return min(int(self._histogram.get_value_at_percentile(percentile)), self.largest_ns)

    def curve(self) -> list[tuple[float, int]]:
        """Percentiles, closer together towards 100, and their nanoseconds."""
        points = []
        for step in self._histogram.get_percentile_iterator(_TICKS):
            percentile = float(step.percentile_level_iterated_to)
            points.append((percentile, min(int(step.value_iterated_to), self.largest_ns)))
            if percentile >= 100:
                break
        return points

    def as_object(self) -> dict[str, object]:
        """For JSON: the figures, the curve, and the histogram itself as HdrHistogram's tools read it (V2, compressed, base64).

        It is kept until more is added: to encode a histogram takes tens of milliseconds, and a run is written after each workload.
        """
        if not self._object:
            figures: dict[str, object] = {name: self.at(percentile) for name, percentile in PERCENTILES.items()}
            encoded = self._histogram.encode()
            text = encoded.decode() if isinstance(encoded, bytes) else str(encoded)
            self._object = figures | {"max": self.largest_ns, "count": self.count, "curve": self.curve(), "hdr": text}
        return self._object
