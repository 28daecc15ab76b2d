from __future__ import annotations

import pytest

from commitlog.pool.low_water import LowWaterMark


def warnings_of(share: float, total: int, steps: str) -> list[bool]:
    """Play borrows (b) and returns (r) from a full pool; return whether each borrow warned."""
    mark, available, said = LowWaterMark(share), total, []
    for step in steps:
        available += -1 if step == "b" else 1
        if step == "b":
            said.append(mark.lent(available, total))
        else:
            mark.came_back(available, total)
    return said


@pytest.mark.parametrize(
    ("share", "total", "steps", "said"),
    [
        (0.4, 5, "bbbbb", [False, False, False, True, False]),
        (0.4, 5, "bbbbrbrb", [False, False, False, True, True, True]),
        (0.4, 5, "bbbbbrb", [False, False, False, True, False, False]),
        (0.4, 2, "bb", [False, True]),
        (0.0, 2, "bb", [False, False]),
    ],
)
def test_low_water_warns_on_fall_and_again_only_after_rise(
    share: float, total: int, steps: str, said: list[bool]
) -> None:
    assert warnings_of(share, total, steps) == said


def test_pool_that_one_borrow_empties_never_warns() -> None:
    assert not any(warnings_of(0.4, 1, "brbrb"))
    assert not any(warnings_of(0.9, 5, "bbbbb"))
