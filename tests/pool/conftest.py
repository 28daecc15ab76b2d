"""Processes that own a pool and are killed by the tests."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.host import start_code

BUFFER_SIZE = 64 << 10
ROOT = Path(__file__).resolve().parents[2]


class PoolOwner:
    """A process that runs a script, which prints one line of JSON and then lives until it is killed
    or its standard input ends.
    """

    def __init__(self, script: str) -> None:
        # A session of its own, so that children of the script can be ended with it.
        self.process = start_code(
            script,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(f"the pool's owner died: {self.process.communicate()[1]}")
        self.said = json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait(30) == -signal.SIGKILL

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait(30)


@pytest.fixture
def pool_owner() -> Iterator[Callable[[str], PoolOwner]]:
    owners: list[PoolOwner] = []

    def start(script: str) -> PoolOwner:
        owners.append(PoolOwner(script))
        return owners[-1]

    yield start
    for owner in owners:
        owner.end()
