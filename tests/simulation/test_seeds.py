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

from tests.simulation.plan import KINDS, Event, plan_of
from tests.simulation.shrink import shrunk

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 40  # all kinds of events, and each family of plans; `make faults` runs 300


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


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        ("append waits for no copies", "acknowledged on too few copies"),
        ("promise is not written", "acknowledged after a fence"),
        pytest.param("copy is not cut at a fork", "progress", marks=pytest.mark.long),
        pytest.param(
            "copy is cut to an older primary",
            "a copy is cut to an older state",
            marks=pytest.mark.long,
        ),
        ("copy acknowledges before its flush", "durable in a power cut"),
    ],
)
def test_fault_that_is_put_back_is_found(mutant: str, rule: str) -> None:
    done = simulate("--mutant", mutant, "--seeds", "41", "--until-found")
    assert rule in done.stdout, done.stdout + done.stderr


def test_plans_take_turns_in_all_families() -> None:
    kinds = {each.kind for seed in range(SEEDS) for each in plan_of(seed)[1]}
    assert kinds == set(KINDS)


def test_shrunk_events_are_the_shortest_that_fail() -> None:
    events = plan_of(3)[1]
    needed = [events[1], events[-1]]

    def fails(fewer: list[Event]) -> bool:
        return all(each in fewer for each in needed)

    assert shrunk(events, fails) == needed
