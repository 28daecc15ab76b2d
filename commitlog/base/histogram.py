"""Durations with three significant digits, or fewer, as HdrHistogram keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
_LOWEST_NS, _HIGHEST_NS, _DIGITS = 1, 3600 * 10**9, 3
_TICKS_PER_HALF = 5


def _empty() -> npt.NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass
class Histogram:
    """Many durations, counted by steps that grow with them.

    HdrHistogram itself takes tens of milliseconds for a percentile, so NumPy computes them; it
    only encodes the result for other tools.

    Attributes
    ----------
    highest_ns : int
        Longer durations count as this.
    exact_bits : int
        A step is at most the 2**(1 - exact_bits)th part of its durations. With 11, each nanosecond
        up to 2048 has a step of its own; with 8, all steps of all durations take 115 KB.
    largest_ns : int
        The longest duration so far.
    """

    highest_ns: int = _HIGHEST_NS
    exact_bits: int = 11
    largest_ns: int = 0
    _steps_ns: npt.NDArray[np.int64] = field(default_factory=_empty)
    _counts: npt.NDArray[np.int64] = field(default_factory=_empty)

    def add(self, latencies_ns: npt.NDArray[np.int64]) -> None:
        if not len(latencies_ns):
            return
        values = np.clip(latencies_ns, _LOWEST_NS, self.highest_ns)
        self.largest_ns = max(self.largest_ns, int(values.max()))
        _, exponents = np.frexp(values.astype(np.float64))
        shifts = np.maximum(exponents - self.exact_bits, 0)
        steps, counts = np.unique(((values >> shifts) + 1 << shifts) - 1, return_counts=True)
        self._steps_ns, places = np.unique(
            np.concatenate([self._steps_ns, steps]), return_inverse=True
        )
        counted = np.bincount(places, np.concatenate([self._counts, counts]))
        self._counts = counted.astype(np.int64)

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def at(self, percentile: float) -> int:
        """Return the nanoseconds that this share did not exceed; 0 if there is no latency."""
        return self._reached(max(1, int(percentile * self.count / 100 + 0.5))) if self.count else 0

    def curve(self) -> list[tuple[float, int]]:
        """Return percentiles, closer together towards 100, and their nanoseconds."""
        points: list[tuple[float, int]] = []
        left = 100.0
        while self.count and (not points or points[-1][1] < self.largest_ns):
            points.append((100 - left, self._reached((100 - left) / 100 * self.count)))
            left -= left / (2 * _TICKS_PER_HALF)
        return [*points, (100.0, self.largest_ns)] if self.count else []

    def as_object(self) -> dict[str, object]:
        """Return it as JSON; "hdr" is HdrHistogram's own format, V2, compressed, base64."""
        from hdrh.histogram import HdrHistogram

        histogram = HdrHistogram(_LOWEST_NS, self.highest_ns, _DIGITS)
        for value, count in zip(self._steps_ns.tolist(), self._counts.tolist(), strict=True):
            histogram.record_value(value, count)
        encoded = histogram.encode()
        text = encoded.decode() if isinstance(encoded, bytes) else str(encoded)
        figures = {name: self.at(percentile) for name, percentile in PERCENTILES.items()}
        whole = {"max": self.largest_ns, "count": self.count, "curve": self.curve(), "hdr": text}
        return figures | whole

    def _reached(self, wanted: float) -> int:
        """Return the nanoseconds that at least `wanted` latencies did not exceed."""
        step = self._steps_ns[np.searchsorted(np.cumsum(self._counts), wanted)]
        return min(int(step), self.largest_ns)
