"""Fixture: buses on a disk and in shared memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(params=["disk", "shm"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a path for a bus that does not exist yet."""
    if request.param == "disk":
        yield tmp_path / "bus"
        return
    directory = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    yield directory / "bus"
    shutil.rmtree(directory)
