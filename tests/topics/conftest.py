"""Fixtures: buses on a disk and in shared memory; a log; an environment without keys."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.topics.key_ring import VARIABLE


@pytest.fixture(params=["disk", "shm"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a path for a bus that does not exist yet."""
    if request.param == "disk":
        yield tmp_path / "bus"
        return
    directory = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    yield directory / "bus"
    shutil.rmtree(directory)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    """Return an open log with small segments."""
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
