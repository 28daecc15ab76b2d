"""Fixtures: for each test a directory on a disk and one in shared memory, and children that end
with the test.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import numbers, shim, shim_library, start

__all__ = ["numbers", "shim", "shim_library", "start"]


KINDS = ["disk", "shm"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `make test` run each case on one of the two kinds of file system, in turn by the name of
    the case, and `make test-long` on the other.
    """
    kind = item.callspec.params.get("folder") if hasattr(item, "callspec") else None
    if kind in KINDS:
        case = item.nodeid.replace(f"[{kind}", "[").replace(f"-{kind}]", "]")
        if zlib.crc32(case.encode()) % 2 != KINDS.index(kind):
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=KINDS)
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
