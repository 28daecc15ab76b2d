"""Fixtures: a server of PostgreSQL, an outbox in SQLite, and a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

import commitlog
from commitlog import CommitLog
from commitlog.outbox import Outbox
from tests.outbox.postgresql import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Start a server of PostgreSQL for the test."""
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    """Return the engine of a database of SQLite."""
    made = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    yield made
    made.dispose()


@pytest.fixture
def outbox(engine: sa.Engine) -> Outbox:
    made = Outbox("shop_outbox")
    made.create(engine)
    return made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as made:
        yield made
