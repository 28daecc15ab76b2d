"""Threads of one process that use its logs at the same time, at random."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def stress(folder: Path, seed: int, seconds: float) -> None:
    command = [sys.executable, "-m", "tests.stress", str(folder), str(seed), str(seconds)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 240, check=False
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0


def test_random_threads_find_no_record_lost_and_no_crash(tmp_path: Path) -> None:
    stress(tmp_path, 1, 3)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(6))
def test_random_threads_for_minutes_find_no_fault(tmp_path: Path, turn: int) -> None:
    stress(tmp_path, int.from_bytes(os.urandom(4), "little") + turn, 60)
