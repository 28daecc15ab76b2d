"""Applications and relays that are killed at random: nothing lost, nothing twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.length import long_count
from tests.outbox.postgresql import Server
from tests.outbox.shop import kill_often

KILLS = 200


def test_killed_applications_and_relays_move_each_row_once(tmp_path: Path) -> None:
    assert kill_often(f"sqlite:///{tmp_path}/shop.db", tmp_path / "log", 10, 1) > 0


@pytest.mark.long
def test_hundreds_of_kills_on_sqlite_move_each_row_once(tmp_path: Path) -> None:
    url, seed = f"sqlite:///{tmp_path}/shop.db", random.SystemRandom().randrange(1 << 30)
    assert kill_often(url, tmp_path / "log", long_count(KILLS), seed) > 0


@pytest.mark.long
def test_hundreds_of_kills_on_postgresql_move_each_row_once(tmp_path: Path, server: Server) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    assert kill_often(server.url, tmp_path / "log", long_count(KILLS), seed, server.crash) > 0
