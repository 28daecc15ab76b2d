"""Peers that send anything do no harm: inputs at random around sound ones."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.replication.targets import TARGETS, mutated

INPUTS = {"messages": 500, "questions": 1000, "answers": 750, "chunks": 400}
LONG_FACTOR = 1000


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, because a follower flushes each chunk."""
    made = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def feed(name: str, folder: Path, numbers: random.Random, inputs: int) -> None:
    target = TARGETS[name](folder)
    try:
        for seed in target.seeds:
            target.take(seed)
        for _ in range(inputs):
            data = mutated(numbers.choice(target.seeds), numbers)
            try:
                target.take(data)
            except BaseException as error:
                raise AssertionError(f"this input does harm: {data!r}") from error
    finally:
        target.close()


@pytest.mark.parametrize("name", TARGETS)
def test_peer_that_sends_anything_does_no_harm(
    name: str, folder: Path, numbers: random.Random
) -> None:
    feed(name, folder, numbers, INPUTS[name])


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_peer_that_sends_a_million_inputs_does_no_harm(
    name: str, folder: Path, numbers: random.Random
) -> None:
    feed(name, folder, numbers, LONG_FACTOR * INPUTS[name])
