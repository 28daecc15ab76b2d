"""The harness: has the cases of each workload take turns, and keeps what they give."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import gc
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from commitlog.bench import machine
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, SkippedError
from commitlog.bench.quiet import settle
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.settings import Settings
from commitlog.bench.workloads import Workload
from commitlog.errors import CommitLogError, DiskFullError, PoolMemoryError


@dataclass(frozen=True)
class Step:
    """A turn that is about to begin.

    Attributes
    ----------
    workload, case : str
        Their names.
    done, total : int
        Turns.
    left_s : float
        How long the rest will take: as was thought, and then as the run has gone so far.
    """

    workload: str
    case: str
    done: int
    total: int
    left_s: float


Progress = Callable[[Step], None]
Keep = Callable[[Results], None]
_WANT_OF_MEANS = (SkippedError, DiskFullError, PoolMemoryError)


def run(
    directory: Path,
    chosen: Sequence[tuple[Workload, list[Case]]],
    settings: Settings,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> Results:
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
    keep : callable, optional
        Given what there is after each workload, marked as interrupted, since nobody knows what
        comes next.

    Returns
    -------
    Results
        After Ctrl-C those that there are, marked as interrupted. A case that cannot be measured
        here is skipped, with the reason.
    """
    began = time.monotonic()
    results = Results(
        started=dt.datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=machine.describe(directory),
        options=dataclasses.asdict(settings),
        interrupted=True,
    )
    course = _Course(chosen, settings, progress)
    with contextlib.suppress(KeyboardInterrupt), Ground(directory, settings) as ground:
        for workload, cases in chosen:
            _run_workload(ground, workload, cases, results, course)
            results.seconds = time.monotonic() - began
            if keep is not None:
                keep(results)
        results.interrupted = False
    results.seconds = time.monotonic() - began
    return results


def expected_s(chosen: Sequence[tuple[Workload, list[Case]]], settings: Settings) -> float:
    """About how long a run will take, in seconds."""
    return sum(
        sum(workload.turns_of(settings)) * len(cases) * workload.turn_s(settings)
        for workload, cases in chosen
    )


class _Course:
    """How far a run has come, and how far it has to go."""

    def __init__(
        self,
        chosen: Sequence[tuple[Workload, list[Case]]],
        settings: Settings,
        progress: Progress | None,
    ) -> None:
        self._progress = progress
        self._total = sum(
            sum(workload.turns_of(settings)) * len(cases) for workload, cases in chosen
        )
        self._expected_s = expected_s(chosen, settings)
        self._began = time.monotonic()
        self._done = 0
        self._done_s = 0.0

    def tell(self, workload: Workload, case: Case) -> None:
        """A turn begins."""
        if self._progress is not None:
            # Slow or fast disks show with time: the more is done, the more it counts how long that
            # took.
            share = self._done_s / self._expected_s
            pace = (
                (1 - share) + share * (time.monotonic() - self._began) / self._done_s
                if self._done_s
                else 1.0
            )
            left_s = (self._expected_s - self._done_s) * pace
            self._progress(Step(workload.name, case.name, self._done, self._total, left_s))

    def ended(self, workload: Workload, settings: Settings) -> None:
        """It has ended."""
        self._done += 1
        self._done_s += workload.turn_s(settings)


def _run_workload(
    ground: Ground, workload: Workload, cases: list[Case], results: Results, course: _Course
) -> None:
    for case in cases:
        results.cases[case.name] = CaseResult(case, workload.unit)
    warm_up, turns = workload.turns_of(ground.settings)
    for turn in range(warm_up + turns):
        # Every other turn goes backward: no case always follows the same one, and neighbours stay
        # neighbours.
        for case in cases if turn % 2 == 0 else reversed(cases):
            course.tell(workload, case)
            _take_turn(ground, workload, results.cases[case.name], turn >= warm_up)
            course.ended(workload, ground.settings)
    ground.drop_pools()


def _take_turn(ground: Ground, workload: Workload, result: CaseResult, counted: bool) -> None:
    if result.skipped:
        return
    gc.collect()
    if workload.settles:
        settle(ground.root, ground.settings.settle_s)
    try:
        sample = workload.measure_of(result.case)(
            ground, result.case, counted and not result.samples
        )
    except _WANT_OF_MEANS as error:
        result.skipped = str(error)
        return
    except (CommitLogError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        result.skipped, result.failed = f"{type(error).__name__}: {error}", True
        return
    if counted:
        result.add(sample)
