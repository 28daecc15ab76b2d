"""The workloads: all measurements, in one table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from commitlog.options import Flush
from commitlog.tools.bench import appends, disk, paced, sync_threads
from commitlog.tools.bench.case import SETUPS, Case, Settings
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workspace import Workspace

Measure = Callable[[Workspace, Case], Sample]
Unit = Literal["/s", "B/s", "s"]
_ONCE: tuple[Flush | None, ...] = (None,)


@dataclass(frozen=True)
class Baseline:
    """A measurement of the machine without commitlog, in turns with the cases of the workload."""

    name: str
    title: str
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A line of the table; its cases are all combinations of what it lists."""

    name: str
    title: str
    about: str = ""
    measure: Measure
    unit: Unit = "/s"  # records a second, bytes of values a second, or seconds an operation
    setups: tuple[str, ...] = tuple(SETUPS)
    flushes: tuple[Flush | None, ...] = _ONCE
    sizes: tuple[int, ...] = (40,)
    forms: tuple[str, ...] = ("",)
    threads: tuple[int, ...] = (1,)
    baselines: tuple[Baseline, ...] = ()  # measured for each size
    turns: Callable[[Settings], int] | None = None
    settles: bool = False  # each turn waits until the disk is idle
    latencies: str = ""  # what a latency is, if one is measured

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
        return settings.turns if self.turns is None else self.turns(settings)

    def measure_of(self, case: Case) -> Measure:
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
        flushes=("sync",),
        threads=(1, 4, 16),
        baselines=(Baseline("page-msync", "msync of one page", disk.measure_page_msync),),
        latencies="an append until it is durable",
    ),
    Workload(
        name="sustained",
        title="Several GiB in one piece",
        about="It includes the work that the pool and the page cache delay; the last flush counts.",
        measure=appends.measure_sustained,
        settles=True,
        unit="B/s",
        flushes=("async",),
        sizes=(1024,),
        baselines=(Baseline("plain-write", "pwrite and fdatasync", appends.measure_plain_write),),
        turns=lambda settings: settings.sustained_turns,
    ),
    Workload(
        name="append",
        title="Bursts of appends",
        about="One thread appends as fast as it can, in bursts with a rest between them.",
        measure=appends.measure_bursts,
        flushes=("async", "none", "sync"),
        sizes=(40, 1024),
        forms=appends.FORMS,
    ),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
TITLES = {setup.name: setup.title for setup in SETUPS.values()} | {
    baseline.name: baseline.title for workload in WORKLOADS for baseline in workload.baselines
}


def choose(
    names: Sequence[str] = (), setups: Sequence[str] = ()
) -> list[tuple[Workload, list[Case]]]:
    """Return workloads with their cases of these setups; empty means all. Baselines always take
    part.
    """
    chosen = []
    for workload in WORKLOADS:
        if not names or workload.name in names:
            cases = workload.cases()
            chosen.append(
                (
                    workload,
                    [one for one in cases if one.baseline or one.setup in setups or not setups],
                )
            )
    return chosen
