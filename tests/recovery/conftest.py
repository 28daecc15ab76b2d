"""Fixture of dead pools for the tests of recovery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from commitlog.pool.shm_survey import discard
from tests.recovery.dead_pools import Content, DeadPool, die_with


@pytest.fixture
def dead_pool() -> Iterator[DeadPool]:
    """Return a function that fills buffers, kills their process and returns their names; discard
    the buffers at the end.
    """
    made: list[str] = []

    def kill(contents: list[Content]) -> list[str]:
        names = die_with(contents)
        made.extend(names)
        return names

    yield kill
    for name in made:
        discard(name)
