"""What the tests of recovery share: pools that died."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from commitlog.pool.shm import discard
from tests.recovery.dead_pools import Content, DeadPool, die_with


@pytest.fixture
def dead_pool() -> Iterator[DeadPool]:
    """Buffers of a pool whose process was killed, by name; gone at the test's end."""
    made: list[str] = []

    def kill(contents: list[Content]) -> list[str]:
        names = die_with(contents)
        made.extend(names)
        return names

    yield kill
    for name in made:
        discard(name)
