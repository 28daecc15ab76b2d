"""The test of the soak finds what grows, and not what varies."""

from __future__ import annotations

import random

from tests.soak.samples import growth_of

TIMES_S = [60.0 * number for number in range(1, 61)]


def test_leak_of_one_descriptor_a_minute_is_no_flat_figure() -> None:
    numbers = random.Random(1)
    values = [40 + minute + numbers.randrange(-5, 6) for minute in range(60)]
    growth = growth_of("mapped writer descriptors", TIMES_S, values)
    assert not growth.is_flat
    assert 50 < growth.grows < 70


def test_figure_that_varies_and_settles_is_flat() -> None:
    numbers = random.Random(2)
    filling = [20 + minute for minute in range(15)]
    values = filling + [35 + numbers.randrange(-5, 6) for _ in range(45)]
    values[50] = 900  # an outlier
    assert growth_of("pooled writer descriptors", TIMES_S, values).is_flat
