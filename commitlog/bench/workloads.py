"""The workloads: everything that is measured, in one table."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from commitlog.bench import appends, baseline, paced, reads, restarts, sustained, sync_threads
from commitlog.bench.case import SETUPS, Case
from commitlog.bench.ground import Ground
from commitlog.bench.sample import Sample
from commitlog.bench.settings import Settings
from commitlog.errors import InvalidOptionError
from commitlog.options import Flush

Measure = Callable[[Ground, Case, bool], Sample]
ALL_SETUPS = tuple(SETUPS)
ALL_FLUSHES: tuple[Flush, ...] = ("async", "none", "sync")
_ONCE: tuple[Flush | None, ...] = (None,)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a workload is compared with; it takes its turns among the workload's cases."""

    name: str
    title: str
    measure: Measure
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A line of the table: its cases are all combinations of what it lists.

    Attributes
    ----------
    name, title : str
        For selecting it, and for people.
    measure : callable
        One turn of one case.
    unit : {"records", "bytes", "seconds"}
        What its figure is: records a second, bytes of values a second, or the time that one
        operation takes.
    setups, flushes, sizes, forms, threads
        What is combined.
    baselines : tuple of Baseline
        What it is compared with.
    turns : callable or None
        How many turns of these settings, without a warm-up; None for the usual number, behind the
        usual warm-up.
    turn_s : callable
        About how many seconds a turn of one of its cases takes on a fast disk: a run says at its
        start how long it will take.
    settles : bool
        Whether each turn waits until the disk is at rest: what earlier turns have left to be
        written would be measured with it.
    latencies : str
        What one latency is the time of; empty where none is taken.
    """

    name: str
    title: str
    measure: Measure
    turn_s: Callable[[Settings], float]
    unit: str = "records"
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
        """Its cases, in the order in which they take turns: what is compared stands close together,
        since a machine drifts.
        """
        found = []
        for size in self.sizes:
            found += [
                Case(self.name, line.name, value_size=size)
                for line in self.baselines
                if size in line.sizes
            ]
            own = itertools.product(self.flushes, self.forms, self.threads, self.setups)
            found += [
                Case(self.name, setup, flush, size, form, threads)
                for flush, form, threads, setup in own
            ]
        return found

    def turns_of(self, settings: Settings) -> tuple[int, int]:
        """How many turns of each case are not counted, and how many are."""
        return (
            (settings.warm_up, settings.turns) if self.turns is None else (0, self.turns(settings))
        )

    def measure_of(self, case: Case) -> Measure:
        """What measures one of its cases."""
        return next(
            (line.measure for line in self.baselines if line.name == case.setup), self.measure
        )


WORKLOADS = (
    Workload(
        name="append",
        title="Appending in bursts",
        measure=appends.measure,
        turn_s=lambda settings: 0.5 + settings.append_bytes / 130e6,
        flushes=ALL_FLUSHES,
        sizes=(40, 1024),
        forms=tuple(appends.FORMS),
        baselines=(
            Baseline(
                name="python-mmap",
                title="pure Python into a mapped file",
                measure=baseline.measure_python_mmap,
                sizes=(40, 1024),
            ),
        ),
        latencies="one call",
    ),
    Workload(
        name="paced",
        title="Appending at a constant rate",
        measure=paced.measure,
        settles=True,
        turn_s=lambda settings: 1.0 + 0.85 * settings.paced_s,
        unit="bytes",
        flushes=("async",),
        sizes=(1024,),
        baselines=(
            Baseline(
                name="pacing-alone",
                title="the pacing loop without a log",
                measure=paced.measure_alone,
                sizes=(1024,),
            ),
        ),
        turns=lambda settings: settings.paced_turns,
        latencies="an append, from when it was due",
    ),
    Workload(
        name="sync-threads",
        title="Sync appends by several threads",
        measure=sync_threads.measure,
        settles=True,
        turn_s=lambda settings: 0.2 + settings.sync_s,
        flushes=("sync",),
        threads=(1, 4, 16),
        baselines=(
            Baseline(
                name="page-msync",
                title="msync of one page",
                measure=baseline.measure_page_msync,
                sizes=(40,),
            ),
        ),
        latencies="an append until it is durable",
    ),
    Workload(
        name="read",
        title="Reading",
        measure=reads.measure,
        turn_s=lambda settings: 0.2 + settings.read_s + settings.read_bytes / 300e6,
        flushes=("async",),
        sizes=(40, 1024),
        forms=tuple(reads.FORMS),
        setups=("mapped", "pooled"),
    ),
    Workload(
        name="recovery",
        title="Recovery of a log whose process died",
        measure=restarts.measure_recovery,
        turn_s=lambda settings: 0.6 + settings.recovery_bytes / 140e6,
        unit="bytes",
        flushes=_ONCE,
        sizes=(1024,),
        forms=("scan", "kill", "power-cut"),
        setups=("mapped", "pooled", "pooled-shm"),
        latencies="an open",
    ),
    Workload(
        name="open",
        title="Opening a clean log of many segments",
        measure=restarts.measure_open,
        turn_s=lambda settings: 0.3 + settings.open_segments / 600,
        unit="seconds",
        sizes=(0,),
        setups=("mapped", "pooled"),
        forms=("append", "read-only"),
        latencies="an open",
    ),
    Workload(
        name="sustained",
        title="Appending several GiB",
        measure=sustained.measure,
        settles=True,
        turn_s=lambda settings: settings.sustained_bytes / 600e6,
        unit="bytes",
        flushes=("async",),
        sizes=(1024,),
        baselines=(
            Baseline(
                name="plain-write",
                title="a loop of pwrite and fdatasync",
                measure=baseline.measure_plain_write,
                sizes=(1024,),
            ),
        ),
        turns=lambda settings: settings.sustained_turns,
    ),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}


def titles() -> dict[str, str]:
    """What setups and baselines are called, for people."""
    lines = [line for workload in WORKLOADS for line in workload.baselines]
    return {setup.name: setup.title for setup in SETUPS.values()} | {
        line.name: line.title for line in lines
    }


def choose(
    names: Sequence[str] = (), setups: Sequence[str] = (), flushes: Sequence[str] = ()
) -> list[tuple[Workload, list[Case]]]:
    """The workloads with these names and, of their cases, those of these setups and flushes; empty
    means all. Baselines always come along.

    Raises
    ------
    InvalidOptionError
        A name is not known, or nothing is left.
    """
    _check_known("workload", names, BY_NAME)
    _check_known("setup", setups, ALL_SETUPS)
    _check_known("flush", flushes, ALL_FLUSHES)
    chosen = []
    for workload in WORKLOADS:
        if names and workload.name not in names:
            continue
        cases = [
            case
            for case in workload.cases()
            if case.baseline
            or (
                (not setups or case.setup in setups)
                and (not flushes or case.flush in (None, *flushes))
            )
        ]
        if any(not case.baseline for case in cases):
            chosen.append((workload, cases))
    if not chosen:
        raise InvalidOptionError(
            "none of these workloads has a case of these setups and flushes: `commitlog bench "
            "--list` shows them all"
        )
    return chosen


def _check_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    listed = list(known)
    for name in names:
        if name not in listed:
            close = difflib.get_close_matches(name, listed, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(listed)}"
            raise InvalidOptionError(f"there is no {what} {name!r}; {hint}")
