"""Machines, disks, clocks, networks and buckets fail at random: no acknowledged record is lost."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.replication.rounds import command

LONG_ROUNDS = int(os.environ.get("COMMITLOG_ROUNDS", "1000"))


def run_rounds(folder: Path, rounds: int, numbers: random.Random) -> None:
    seed = f"{numbers.getrandbits(32):08x}"
    subprocess.run(command(rounds, seed, folder / "world"), cwd=ROOT, check=True)


def test_rounds_of_faults_lose_no_record(tmp_path: Path, numbers: random.Random) -> None:
    run_rounds(tmp_path, 2, numbers)


@pytest.mark.long
@pytest.mark.timeout(60 * LONG_ROUNDS)
def test_many_rounds_of_faults_lose_no_record(tmp_path: Path, numbers: random.Random) -> None:
    run_rounds(tmp_path, LONG_ROUNDS, numbers)
