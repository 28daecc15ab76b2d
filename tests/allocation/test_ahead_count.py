"""AheadCount: how many segments to allocate ahead of need, from fill and creation times."""

from __future__ import annotations

import pytest

from commitlog.allocation.allocation_service import AheadCount


def rolling_every(seconds: float, *, made_in: float, fixed: int | None = None) -> AheadCount:
    """Return an AheadCount after three rolls at the given interval."""
    count = AheadCount(fixed)
    count.note_time(made_in)
    for number in range(4):
        count.tail_in(number, number * seconds)
    return count


@pytest.mark.parametrize(
    ("fill_s", "make_s", "expected"),
    [(1.0, 0.001, 1), (0.33, 0.2, 2), (0.01, 0.012, 3), (0.001, 1.0, 8), (0.0, 0.001, 8)],
)
def test_count_follows_creation_to_fill_ratio(fill_s: float, make_s: float, expected: int) -> None:
    assert rolling_every(fill_s, made_in=make_s).value == expected


@pytest.mark.parametrize("fixed", [0, 1, 5])
def test_fixed_count_ignores_measured_times(fixed: int) -> None:
    assert rolling_every(0.001, made_in=1.0, fixed=fixed).value == fixed


def test_first_roll_does_not_set_the_fill_time() -> None:
    """The log may be opened in the middle of a segment, so the time to fill it is unknown."""
    count = AheadCount(None)
    count.note_time(1.0)
    count.tail_in(7, 0.0)
    count.tail_in(8, 0.001)
    assert count.value == 1


def test_rolls_between_two_checks_share_the_elapsed_time() -> None:
    count = rolling_every(10.0, made_in=1.0)
    count.tail_in(13, 31.0)
    assert count.value == 8
    count.tail_in(12, 31.5)
    count.tail_in(13, 99.0)
    assert count.value == 8


def test_slow_creation_decays_with_later_fast_ones() -> None:
    count = rolling_every(0.1, made_in=1.0)
    assert count.value == 8
    for _ in range(30):
        count.note_time(0.001)
    assert count.value == 1
