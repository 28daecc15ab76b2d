"""How many segments are made ahead of need, at which rate."""

from __future__ import annotations

import pytest

from commitlog.segment.ahead_count import AheadCount


def rolling_every(seconds: float, *, made_in: float, fixed: int | None = None) -> AheadCount:
    """A count that has seen three rolls."""
    count = AheadCount(fixed)
    count.made_in(made_in)
    for number in range(4):
        count.tail_in(number, number * seconds)
    return count


@pytest.mark.parametrize(
    ("fill_s", "make_s", "expected"),
    [(1.0, 0.001, 1), (0.33, 0.2, 2), (0.01, 0.012, 3), (0.001, 1.0, 8), (0.0, 0.001, 8)],
)
def test_count_follows_filling_against_making(fill_s: float, make_s: float, expected: int) -> None:
    assert rolling_every(fill_s, made_in=make_s).value == expected


@pytest.mark.parametrize("fixed", [0, 1, 5])
def test_fixed_count_follows_nothing(fixed: int) -> None:
    assert rolling_every(0.001, made_in=1.0, fixed=fixed).value == fixed


def test_first_roll_says_nothing_of_the_rate() -> None:
    """The log was opened in the middle of its segment."""
    count = AheadCount(None)
    count.made_in(1.0)
    count.tail_in(7, 0.0)
    count.tail_in(8, 0.001)
    assert count.value == 1


def test_rolls_that_were_not_looked_at_share_the_time() -> None:
    count = rolling_every(10.0, made_in=1.0)
    count.tail_in(13, 31.0)
    assert count.value == 8
    count.tail_in(12, 31.5)
    count.tail_in(13, 99.0)
    assert count.value == 8


def test_slow_creation_is_forgotten_over_later_ones() -> None:
    count = rolling_every(0.1, made_in=1.0)
    assert count.value == 8
    for _ in range(30):
        count.made_in(0.001)
    assert count.value == 1
