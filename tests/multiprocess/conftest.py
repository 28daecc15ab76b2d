"""Fixtures: for each test a directory on a disk and one in shared memory, and children that end
with the test.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import numbers, shim, shim_library, start

__all__ = ["numbers", "shim", "shim_library", "start"]


@pytest.fixture(params=["disk", "shm"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return an empty directory, on each of the two kinds of file system."""
    if request.param == "disk":
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(folder: Path) -> Path:
    """Return the path of the test's log."""
    return folder / "log"
