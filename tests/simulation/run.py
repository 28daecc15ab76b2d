"""Run: one seed, from its plan to its verdict."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.simulation import disks as faults
from tests.simulation.cluster import Cluster
from tests.simulation.disks import Disks
from tests.simulation.machines import Machine, Machines, Process
from tests.simulation.objects import Objects
from tests.simulation.oracle import ViolationError
from tests.simulation.plan import Event, Settings, plan_of
from tests.simulation.world import Choices, HangError, Task, World

ROOT = Path("/dev/shm")


@dataclass
class Outcome:
    """What a run came to."""

    seed: int
    rule: str = ""  # that was violated; empty: none
    why: str = ""
    story: list[str] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    events: int = 0
    opens: int = 0
    acks: int = 0
    promotions: int = 0
    reads: int = 0
    read_by_readers: int = 0
    pairs: set[tuple[str, ...]] = field(default_factory=set)  # of kinds, one after the other
    triples: set[tuple[str, ...]] = field(default_factory=set)
    places: set[tuple[str, ...]] = field(default_factory=set)  # event, role, step that was passed
    steps: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0


def run_seed(seed: int) -> Outcome:
    return run(seed, *plan_of(seed))


def run(
    seed: int, settings: Settings, events: list[Event], choices: list[int] | None = None
) -> Outcome:
    """Run a plan; the choices that it leaves open come from the seed, or are given."""
    began_s = time.process_time()
    folder = Path(tempfile.mkdtemp(prefix="sim", dir=ROOT))
    world = World(Choices(seed, choices))
    disks = Disks(folder) if any(each.kind in faults.EVENTS for each in events) else None
    world.on_turn = None if disks is None else disks.turn
    machines = Machines(world, folder, settings.machines, disks)
    objects = Objects(world)
    cluster = Cluster(machines, objects, settings)
    outcome = Outcome(seed, choices=world.choices.made)
    operator = Process(Machine("operator", "10.0.0.99", folder / "operator"))

    def operate() -> None:
        try:
            for event in events:
                cluster.do(event)
            cluster.finish()
        except ViolationError as error:
            cluster.violate(error)
        world.over = True

    logging.disable()
    tempfile.tempdir = str(folder)  # of readers
    try:
        with machines.hosted(), objects.used(syncs=disks is not None):
            Task(world, "operator", operate, operator).start()
            try:
                world.run()
            except HangError as error:
                outcome.rule, outcome.why = "progress", str(error)
            for task, error in world.failures:
                outcome.rule, outcome.why = "unexpected", f"{task.name}: {error!r}"
            if cluster.oracle.violation is not None:
                outcome.rule = cluster.oracle.violation.rule
                outcome.why = str(cluster.oracle.violation)
            world.current = operator.tasks[0]
            running = [each.process for each in machines.each if each.process is not None]
            for process in running + cluster.readers.processes():
                machines.kill(process)
    finally:
        logging.disable(logging.NOTSET)
        tempfile.tempdir = None
        if disks is not None:
            disks.close()
        shutil.rmtree(folder, ignore_errors=True)
    _kept.append(world)
    outcome.story = cluster.story
    outcome.events, outcome.opens = len(events), cluster.opens
    outcome.acks, outcome.reads = cluster.oracle.acks, cluster.oracle.reads
    outcome.read_by_readers = cluster.readers.records
    outcome.promotions = cluster.oracle.promotions
    kinds = [each.kind for each in events]
    outcome.pairs = set(pairwise(kinds))
    outcome.triples = set(zip(kinds, kinds[1:], kinds[2:], strict=False))
    outcome.places = machines.places
    outcome.steps = machines.steps
    outcome.took_s = time.process_time() - began_s
    return outcome


# Killed threads stay as they are: to end them would run their `finally` blocks.
_kept: list[World] = []
