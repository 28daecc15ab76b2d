"""The harness: has the cases of each workload take turns, and keeps what they give."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gc
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.bench import machine
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, NoRoomError
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.settings import Settings
from commitlog.bench.workloads import Workload
from commitlog.errors import CommitLogError, DiskFullError, PoolMemoryError

# Told before each turn: which case, how many turns are done, how many there are.
Progress = Callable[[str, int, int], None]
_WANT_OF_ROOM = (NoRoomError, DiskFullError, PoolMemoryError)


def run(directory: Path, chosen: Sequence[tuple[Workload, list[Case]]], settings: Settings, progress: Progress | None = None) -> Results:
    """Measure.

    Parameters
    ----------
    directory : Path
        Where the run makes a temporary directory, and removes it at the end.
    chosen : sequence
        From `workloads.choose`.
    settings : Settings
        How large, how long, how often.
    progress : callable, optional
        Told before each turn.

    Returns
    -------
    Results
        After Ctrl-C those that there are, marked as interrupted. A case without room is skipped, with the reason.
    """
    began = time.monotonic()
    results = Results(
        started=dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=machine.describe(directory),
        options=dataclasses.asdict(settings),
    )
    total = sum(len(cases) * _turns(workload, settings) for workload, cases in chosen)
    done = 0
    try:
        with Ground(directory, settings) as ground:
            for workload, cases in chosen:
                for case in cases:
                    results.cases[case.name] = CaseResult(case, workload.unit)
                for turn in range(_turns(workload, settings)):
                    counted = turn >= settings.warm_up
                    # Each turn begins with another case, so that no case always follows the same one.
                    for index in range(len(cases)):
                        case = cases[(index + turn) % len(cases)]
                        if progress is not None:
                            progress(case.name, done, total)
                        _take_turn(ground, workload, results.cases[case.name], counted)
                        done += 1
                ground.drop_pools()
    except KeyboardInterrupt:
        results.interrupted = True
    results.seconds = time.monotonic() - began
    return results


def _turns(workload: Workload, settings: Settings) -> int:
    return settings.warm_up + (settings.turns if workload.turns is None else workload.turns(settings))


def _take_turn(ground: Ground, workload: Workload, result: CaseResult, counted: bool) -> None:
    if result.skipped:
        return
    gc.collect()
    try:
        sample = workload.measure_of(result.case)(ground, result.case, counted and not result.samples)
    except _WANT_OF_ROOM as error:
        result.skipped = str(error)
        return
    except (CommitLogError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        result.skipped, result.failed = f"{type(error).__name__}: {error}", True
        return
    if counted:
        result.add(sample)
