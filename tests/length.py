"""How long the long tests are, and what of them `make test` runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest

_SHARE = float(os.environ.get("COMMITLOG_LONG", "1"))


def long_count(count: int) -> int:
    """Return the share of a count that COMMITLOG_LONG asks for: all of it by default."""
    return max(1, round(_SHARE * count))


def every(count: int) -> pytest.MarkDecorator:
    """Give a test the parameter `every`: it takes one step in so many, and as a long test each."""
    return pytest.mark.parametrize(
        "every", [count, pytest.param(1, marks=pytest.mark.long, id="each")]
    )


def mixed(*axes: Iterable[Any], of: int) -> list[Any]:
    """Return all combinations of values, as parameters of a test.

    `make test` runs one in `of`, so that each value occurs there if the other values are at least
    `of`; `make test-long` runs the others.
    """
    found = []
    for numbered in itertools.product(*map(enumerate, axes)):
        places, values = zip(*numbered, strict=True)
        long = [pytest.mark.long] if sum(places) % of else []
        found.append(pytest.param(*values, marks=long))
    return found
