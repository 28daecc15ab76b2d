"""The harness: run the cases of each workload in turns."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import gc
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.errors import CommitLogError, DiskFullError, PoolMemoryError
from commitlog.tools.bench import machine
from commitlog.tools.bench.case import Case, Settings
from commitlog.tools.bench.disk import settle
from commitlog.tools.bench.results import CaseResult, Results
from commitlog.tools.bench.workloads import Workload
from commitlog.tools.bench.workspace import SkippedError, Workspace

Chosen = Sequence[tuple[Workload, list[Case]]]
Progress = Callable[[Case, int, int], None]
Keep = Callable[[Results], None]
_NO_MEANS = (SkippedError, DiskFullError, PoolMemoryError)
_FAULTS = (CommitLogError, OSError, RuntimeError, subprocess.SubprocessError)


def run(
    directory: Path, chosen: Chosen, settings: Settings, progress: Progress, keep: Keep
) -> Results:
    """Measure in a temporary directory in `directory`.

    `progress` is called before each turn, with the number of turns so far and of all turns. `keep`
    is called after each workload with the results so far, which are marked as interrupted. After
    Ctrl-C, return those so far. A case that cannot be measured here has the reason instead.
    """
    began = time.monotonic()
    results = Results(
        started=dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=machine.describe(directory),
        options=dataclasses.asdict(settings),
        interrupted=True,
    )
    total = sum(workload.turns_of(settings) * len(cases) for workload, cases in chosen)
    done = 0
    with contextlib.suppress(KeyboardInterrupt), Workspace(directory, settings) as workspace:
        for workload, cases in chosen:
            for case in cases:
                results.cases[case.name] = CaseResult(case, workload.unit)
            for turn in range(workload.turns_of(settings)):
                # Every other turn goes backward, so that no case always follows the same one.
                for case in cases if turn % 2 == 0 else reversed(cases):
                    progress(case, done, total)
                    _take_turn(workspace, workload, results.cases[case.name])
                    done += 1
            workspace.drop_pools()
            results.seconds = time.monotonic() - began
            keep(results)
        results.interrupted = False
    results.seconds = time.monotonic() - began
    return results


def _take_turn(workspace: Workspace, workload: Workload, result: CaseResult) -> None:
    if result.skipped:
        return
    gc.collect()
    if workload.settles:
        settle(workspace.root, workspace.settings.settle_s)
    try:
        result.add(workload.measure_of(result.case)(workspace, result.case))
    except _NO_MEANS as error:
        result.skipped = str(error)
    except _FAULTS as error:
        result.skipped, result.failed = f"{type(error).__name__}: {error}", True
