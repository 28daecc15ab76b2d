"""A power cut at random moments: whatever the system had written of its own accord, everything that was flushed is there."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link, Report
from tests.faults.shim import Shim
from tests.faults.writers import APPENDED, close_log, open_log, value_of

Start = Callable[..., Child]
FLUSHED = "F"
CUTS = 12
LONG_CUTS = 400
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
QUICK = {"flush_interval": 0.001, "flush_least_pages": 0, "checkpoint_interval": 0.001, "sync_timeout": 60}


def append_and_flush(link: Link, path: str, sync: bool, pool: dict[str, Any] | None) -> None:
    """Append for ever: each record synced, or all of them flushed now and then by `flush` and by the service."""
    log, _ = open_log(path, pool, QUICK | {"flush": "sync" if sync else "async"})
    for index in itertools.count():
        position = log.append(value_of(0, index))
        link.say(APPENDED, 0, index, position)
        if sync:
            link.say(FLUSHED, 0, index, position + 1)
        elif index % 100 == 0:
            link.say(FLUSHED, 0, index, log.flush())
        elif index % 10 == 0:
            link.say(FLUSHED, 0, index, log.flushed_position)


@pytest.fixture
def run_cuts(tmp_path: Path, numbers: random.Random, start: Start, shim: Shim) -> Callable[[bool, str, int], None]:
    """Stop a writer at random moments, make of its log what a power cut would, and look at it."""

    def run(sync: bool, kind: str, cuts: int) -> None:
        live = tmp_path / "live"
        child = start(append_and_flush, str(live), sync, POOLS[kind], environment=shim.environment(shadow=True))
        reports: list[Report] = []
        for turn in range(cuts):
            reports += child.hear(numbers.randint(2, 60 if sync else 400))
            reports += child.pause()
            target = tmp_path / f"cut-{turn}"
            shim.cut_power(live, target, numbers, numbers.choice([0.0, 0.0, 0.2, 0.5, 0.9, 1.0]))
            flushed = max((report.position for report in reports if report.kind == FLUSHED), default=0)
            account = Account()
            account.note(report for report in reports if report.kind == APPENDED and report.position < flushed)
            check_cut(target, account)
            shutil.rmtree(target)
            child.resume()
        child.kill()

    return run


def check_cut(target: Path, account: Account) -> None:
    """Open what a power cut has left, twice, with appends in between."""
    log, made = open_log(str(target), None, {})
    account.check(log)
    end = log.tail_position
    assert image.behind(target, end) == b""
    for index in range(40):
        log.append(value_of(5, index))
    account.check(log)
    close_log(log, made)
    assert image.temporaries(target) == []
    log, made = open_log(str(target), {}, {})
    account.check(log)
    close_log(log, made)


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "flush"])
def test_everything_flushed_survives_power_cuts(kind: str, sync: bool, run_cuts: Callable[[bool, str, int], None]) -> None:
    run_cuts(sync, kind, CUTS)


@pytest.mark.long
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "flush"])
def test_everything_flushed_survives_hundreds_of_power_cuts(kind: str, sync: bool, run_cuts: Callable[[bool, str, int], None]) -> None:
    run_cuts(sync, kind, LONG_CUTS)
