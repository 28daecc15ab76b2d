"""Seeds: runs of the simulator, those that once failed among them; it repeats, and it finds faults.

More of them: `make simulate SEEDS=2000`. A run that fails is added to `failed.txt`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.plan import Event, plan_of
from tests.simulation.shrink import shrunk

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 120  # as many as take 20 s of processor time


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(600)
def test_every_promise_holds_in_the_first_seeds(tmp_path: Path) -> None:
    done = simulate("--seeds", str(SEEDS), "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["seeds"] == SEEDS
    assert figures["acknowledged"] > 10 * SEEDS


def test_runs_that_once_failed_pass() -> None:
    done = simulate("--failed")
    assert done.returncode == 0, done.stdout + done.stderr


def test_seed_repeats_to_the_last_line() -> None:
    first, second = (simulate("--replay", "17").stdout for _ in range(2))
    assert first == second
    assert "every promise held" in first


def test_fault_that_is_put_back_is_found() -> None:
    done = simulate("--mutant", "one copy too few acknowledges", "--seeds", "20", "--until-found")
    assert "acknowledged on too few copies" in done.stdout, done.stdout + done.stderr


def test_shrunk_events_are_the_shortest_that_fail() -> None:
    events = plan_of(3)[1]
    needed = [events[1], events[-1]]

    def fails(fewer: list[Event]) -> bool:
        return all(each in fewer for each in needed)

    assert shrunk(events, fails) == needed
