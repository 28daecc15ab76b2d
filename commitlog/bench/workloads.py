"""The workloads: all measurements, in one table."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from commitlog.bench import appends, disk, paced, sustained, sync_threads
from commitlog.bench.case import SETUPS, Case
from commitlog.bench.sample import Sample
from commitlog.bench.settings import Settings
from commitlog.bench.workspace import Workspace
from commitlog.errors import InvalidOptionError
from commitlog.options import Flush

Measure = Callable[[Workspace, Case], Sample]
Unit = Literal["/s", "B/s", "s"]
ALL_SETUPS = tuple(SETUPS)
ALL_FLUSHES: tuple[Flush, ...] = ("async", "none", "sync")
_ONCE: tuple[Flush | None, ...] = (None,)


@dataclass(frozen=True)
class Baseline:
    """A measurement of the machine without commitlog, in turns with the cases of the workload."""

    name: str
    title: str
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A line of the table; its cases are all combinations of what it lists.

    Attributes
    ----------
    name, title, about : str
        The name on the command line, the heading, and a description.
    measure : callable
        One turn of one case.
    turn_s : callable
        The approximate seconds of a turn on a fast disk.
    unit : {"/s", "B/s", "s"}
        Records a second, bytes of values a second, or seconds an operation.
    setups, flushes, sizes, forms, threads : tuple
        The values to combine.
    baselines : tuple of Baseline
        The baselines, measured for each size.
    turns : callable or None
        Number of turns; None for `Settings.turns`.
    settles : bool
        Whether each turn waits until the disk is idle.
    latencies : str
        The meaning of a latency; empty if none is measured.
    """

    name: str
    title: str
    about: str = ""
    measure: Measure
    turn_s: Callable[[Settings], float]
    unit: Unit = "/s"
    setups: tuple[str, ...] = ALL_SETUPS
    flushes: tuple[Flush | None, ...] = _ONCE
    sizes: tuple[int, ...] = (40,)
    forms: tuple[str, ...] = ("",)
    threads: tuple[int, ...] = (1,)
    baselines: tuple[Baseline, ...] = ()
    turns: Callable[[Settings], int] | None = None
    settles: bool = False
    latencies: str = ""

    def cases(self) -> list[Case]:
        """Return its cases in turn order: what is compared is adjacent, as a machine drifts."""
        found = []
        for size in self.sizes:
            found += [
                Case(self.name, baseline.name, value_size=size) for baseline in self.baselines
            ]
            own = itertools.product(self.flushes, self.forms, self.threads, self.setups)
            found += [
                Case(self.name, setup, flush, size, form, threads)
                for flush, form, threads, setup in own
            ]
        return found

    def turns_of(self, settings: Settings) -> int:
        """Return how many turns each case takes."""
        return settings.turns if self.turns is None else self.turns(settings)

    def measure_of(self, case: Case) -> Measure:
        """Return what measures one of its cases."""
        baselines = {baseline.name: baseline.measure for baseline in self.baselines}
        return baselines.get(case.setup, self.measure)


WORKLOADS = (
    Workload(
        name="paced",
        title="Constant rate",
        about="A steady stream, as from a service. A latency counts from the moment at which the "
        "append was due, so that a stall counts for every append that it delays.",
        measure=paced.measure,
        settles=True,
        turn_s=lambda settings: 1.0 + 0.85 * settings.paced_s,
        unit="B/s",
        flushes=("async",),
        sizes=(1024,),
        baselines=(Baseline("pacing-alone", "the loop without a log", paced.measure_alone),),
        turns=lambda settings: settings.paced_turns,
        latencies="an append, from when it was due",
    ),
    Workload(
        name="sync-threads",
        title="Sync appends",
        about="Every append waits until its record is durable. Threads share flushes.",
        measure=sync_threads.measure,
        settles=True,
        turn_s=lambda settings: 0.2 + settings.sync_s,
        flushes=("sync",),
        threads=(1, 4, 16),
        baselines=(Baseline("page-msync", "msync of one page", disk.measure_page_msync),),
        latencies="an append until it is durable",
    ),
    Workload(
        name="sustained",
        title="Several GiB in one piece",
        about="It includes the work that the pool and the page cache delay; the last flush counts.",
        measure=sustained.measure,
        settles=True,
        turn_s=lambda settings: settings.sustained_bytes / 600e6,
        unit="B/s",
        flushes=("async",),
        sizes=(1024,),
        baselines=(Baseline("plain-write", "pwrite and fdatasync", sustained.measure_plain_write),),
        turns=lambda settings: settings.sustained_turns,
    ),
    Workload(
        name="append",
        title="Bursts of appends",
        about="One thread appends as fast as it can, in bursts with a rest between them.",
        measure=appends.measure,
        turn_s=lambda settings: 0.5 + settings.append_bytes / 130e6,
        flushes=ALL_FLUSHES,
        sizes=(40, 1024),
        forms=appends.FORMS,
    ),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
TITLES = {setup.name: setup.title for setup in SETUPS.values()} | {
    baseline.name: baseline.title for workload in WORKLOADS for baseline in workload.baselines
}


def choose(
    names: Sequence[str] = (), setups: Sequence[str] = (), flushes: Sequence[str] = ()
) -> list[tuple[Workload, list[Case]]]:
    """Return workloads with their cases of these setups and flush options; empty means all.

    Baselines always take part.

    Raises
    ------
    InvalidOptionError
        A name is not known, or nothing is left.
    """
    _check_known("workload", names, BY_NAME)
    _check_known("setup", setups, ALL_SETUPS)
    _check_known("flush", flushes, ALL_FLUSHES)

    def is_chosen(case: Case) -> bool:
        if case.baseline:
            return True
        of_setup = not setups or case.setup in setups
        return of_setup and (not flushes or case.flush in (None, *flushes))

    chosen = []
    for workload in WORKLOADS:
        cases = list(filter(is_chosen, workload.cases()))
        if (not names or workload.name in names) and not all(case.baseline for case in cases):
            chosen.append((workload, cases))
    if not chosen:
        raise InvalidOptionError(
            "none of these workloads has such a case: `commitlog bench --list` shows them all"
        )
    return chosen


def _check_known(what: str, names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise InvalidOptionError(f"there is no {what} {name!r}; {hint}")
