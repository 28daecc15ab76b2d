"""Fixtures of the fault tests: child processes, a printed seed, and the shim."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import shim as shims
from tests.faults.child import Child, host_with
from tests.faults.shim import Shim
from tests.faults.writers import SHM_PREFIX


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a `Child`; kill it at the end of the test if it still runs."""
    children: list[Child] = []

    def started(*arguments: Any, **options: Any) -> Child:
        children.append(Child(*arguments, **options))
        return children[-1]

    yield started
    for child in children:
        child.end()


@pytest.fixture
def numbers(request: pytest.FixtureRequest) -> random.Random:
    """Return a generator seeded by the test's name; COMMITLOG_SEED varies all seeds."""
    seed = f"{os.environ.get('COMMITLOG_SEED', '0')} {request.node.name}"
    print(f"seed: {seed!r}")
    return random.Random(seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the test's log."""
    return tmp_path / "log"


@pytest.fixture(autouse=True)
def shared_memory_removed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test's shared-memory buffers a common prefix; remove those of killed children."""
    prefix = secrets.token_hex(8)
    monkeypatch.setenv(SHM_PREFIX, prefix)
    yield
    for left in Path("/dev/shm").glob(f"commitlog-{prefix}*"):
        left.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the shim once a session, and start the interpreter that preloads it."""
    library = shims.build(tmp_path_factory.mktemp("shim"))
    host_with(str(library))
    return library


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Shim:
    """Return a shim with its own state."""
    return Shim(shim_library, tmp_path)
