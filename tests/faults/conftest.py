"""What the tests of faults share: children that are gone at the end of each test, and a seed that
is printed.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import shim as shims
from tests.faults.child import Child
from tests.faults.shim import Shim
from tests.faults.writers import SHM_PREFIX


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a `Child`; the end of the test kills it if it still runs."""
    children: list[Child] = []

    def started(*arguments: Any, **options: Any) -> Child:
        children.append(Child(*arguments, **options))
        return children[-1]

    yield started
    for child in children:
        child.end()


@pytest.fixture
def numbers(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of a seed that depends on the test alone; COMMITLOG_SEED varies all of
    them.
    """
    seed = f"{os.environ.get('COMMITLOG_SEED', '0')} {request.node.name}"
    print(f"seed: {seed!r}")
    return random.Random(seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test's log will be."""
    return tmp_path / "log"


@pytest.fixture(autouse=True)
def shared_memory_removed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The buffers of this test's pools have names that begin alike; what a killed child never got
    to write down does not outlive it.
    """
    prefix = secrets.token_hex(8)
    monkeypatch.setenv(SHM_PREFIX, prefix)
    yield
    for left in Path("/dev/shm").glob(f"commitlog-{prefix}*"):
        left.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim."""
    return shims.build(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Shim:
    """A shim of the test's own."""
    return Shim(shim_library, tmp_path)
