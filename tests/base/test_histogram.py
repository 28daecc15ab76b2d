"""Latencies: percentiles, the curve, and the format of HdrHistogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hdrh.histogram import HdrHistogram

from commitlog.base.histogram import Histogram

SEED = 20260101


@pytest.fixture
def values() -> npt.NDArray[np.int64]:
    random = np.random.default_rng(SEED)
    return random.lognormal(10, 2, 100_000).astype(np.int64) + 1


@pytest.fixture
def histogram(values: npt.NDArray[np.int64]) -> Histogram:
    made = Histogram()
    for part in np.split(values, 4):
        made.add(part)
    return made


def test_percentiles_are_those_of_the_values(
    histogram: Histogram, values: npt.NDArray[np.int64]
) -> None:
    ordered = np.sort(values)
    assert (histogram.count, histogram.largest_ns) == (len(values), ordered[-1])
    for percentile in (50.0, 99.0, 99.9, 99.99):
        exact = ordered[round(percentile / 100 * len(values)) - 1]
        assert histogram.at(percentile) == pytest.approx(exact, rel=2e-3)


def test_percentiles_agree_with_hdrhistogram(histogram: Histogram) -> None:
    whole: dict[str, Any] = histogram.as_object()
    theirs = HdrHistogram.decode(whole["hdr"])
    for percentile in (0.001, 50.0, 99.0, 99.9, 99.99):
        assert histogram.at(percentile) == theirs.get_value_at_percentile(percentile)
    steps = [  # the iterator returns the same object each time
        (step.percentile_level_iterated_to, min(step.value_iterated_to, histogram.largest_ns))
        for step in theirs.get_percentile_iterator(5)
    ]
    curve = histogram.curve()
    assert [percentile for percentile, _ in curve] == pytest.approx([one for one, _ in steps])
    assert [ns for _, ns in curve] == [ns for _, ns in steps]


def test_values_added_later_are_counted(histogram: Histogram) -> None:
    before = histogram.count
    histogram.add(np.array([1, 2, 3], np.int64))
    assert histogram.as_object()["count"] == before + 3


def test_empty_histogram_has_no_curve() -> None:
    histogram = Histogram()
    histogram.add(np.zeros(0, np.int64))
    assert (histogram.count, histogram.at(99.9), histogram.curve()) == (0, 0, [])
