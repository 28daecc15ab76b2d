"""Machines, disks, clocks, networks and buckets fail at random: no acknowledged record is lost."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from commitlog import Store, replication
from commitlog.recovery.lineage import Rank
from tests.conftest import ROOT
from tests.faults.replication.rounds import command
from tests.faults.replication.world import LOG, World

LONG_ROUNDS = int(os.environ.get("COMMITLOG_ROUNDS", "1000"))


def run_rounds(folder: Path, rounds: int, numbers: random.Random) -> None:
    seed = f"{numbers.getrandbits(32):08x}"
    subprocess.run(command(rounds, seed, folder / "world"), cwd=ROOT, check=True)


def test_rounds_of_faults_lose_no_record(tmp_path: Path, numbers: random.Random) -> None:
    run_rounds(tmp_path, 2, numbers)


def test_log_that_the_store_fences_is_promoted_again(
    tmp_path: Path, numbers: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = iter(("1" * 32, "2" * 32))  # the higher one prevails among the copies
    ranked = Rank.after
    with World(tmp_path / "world", numbers, disks=False) as world:
        world.begin()
        world.require = 2
        world.check(promoted=False)
        world.end_appends()
        for name in world.followers:
            world.end(name)
        # Each record is on all copies: one promise is enough, so neither learns of the other.
        with monkeypatch.context() as patch:
            patch.setattr(Rank, "after", lambda known: ranked(known)._replace(id=next(ids)))
            for name, store in (("c", Store(world.store)), ("b", None)):
                others = [world.backs[other].url(LOG) for other in world.followers if other != name]
                replication.promote(
                    world.log_of(name), others=others, require=2, store=store, timeout=0.5
                )
        assert world.lineage("b").number == world.lineage("c").number == 1
        world.settle()
        assert world.rank().number == 2
        world.check(promoted=True)


@pytest.mark.long
@pytest.mark.timeout(60 * LONG_ROUNDS)
def test_many_rounds_of_faults_lose_no_record(tmp_path: Path, numbers: random.Random) -> None:
    run_rounds(tmp_path, LONG_ROUNDS, numbers)
