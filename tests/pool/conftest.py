"""What the pool's tests share: children by fork, processes to kill, and bounded waiting for a condition."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BUFFER_SIZE = 64 << 10
ROOT = Path(__file__).resolve().parents[2]


class PoolOwner:
    """A process that runs a script which prints one line of JSON and then lives until it is killed or its input ends."""

    def __init__(self, script: str) -> None:
        # A session of its own, so that what the script forks can be ended with it.
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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


@pytest.fixture
def in_child() -> Callable[[Callable[[], Any]], Any]:
    """Run a function in a forked child and give its result, or the text of what it raised, as an AssertionError."""

    def run(function: Callable[[], Any]) -> Any:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            answer = None
            try:
                answer = (True, function())
            finally:
                os.write(writer, pickle.dumps(answer or (False, traceback.format_exc())))
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            data = stream.read()
        assert os.waitpid(child, 0)[1] == 0
        fine, result = pickle.loads(data)
        assert fine, result
        return result

    return run


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Yield the processor until a condition holds, ten seconds at most."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true within 10 s"
            os.sched_yield()

    return wait
