"""Plan: the events of a run, drawn from its seed, and runs that once failed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

# The weight of each kind of event.
KINDS = {
    "run": 10,
    "kill": 5,
    "kill_at": 6,
    "start": 9,
    "primary": 3,
    "follow": 5,
    "failover": 8,
    "promote": 8,
    "backup": 4,
    "restore": 4,
    "rollback": 4,
    "clone": 2,
    "wipe": 1,
    "from_store": 3,
    "partition": 4,
    "heal": 3,
    "pause": 3,
    "clock": 1,
    "store_fault": 3,
    "delete": 2,
    "read": 2,
}


@dataclass(frozen=True)
class Settings:
    """What is the same during a run."""

    machines: int
    require: int
    store: bool


@dataclass(frozen=True)
class Event:
    """An event; what machine and number mean depends on its kind."""

    kind: str
    machine: int
    other: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind} m{self.machine} m{self.other} {self.number}"

    @classmethod
    def parse(cls, text: str) -> Event:
        kind, machine, other, number = text.split()
        return cls(kind, int(machine[1:]), int(other[1:]), int(number))


@dataclass(frozen=True)
class Failed:
    """A run that once failed."""

    what: str
    seed: int
    settings: Settings
    events: list[Event]

    @classmethod
    def parse(cls, line: str) -> Failed:
        what, seed, settings, events = (each.strip() for each in line.split("|"))
        machines, require, store = settings.split()
        fixed = Settings(int(machines), int(require), store == "True")
        return cls(what, int(seed), fixed, [Event.parse(each) for each in events.split(";")])


def failed_runs() -> list[Failed]:
    """Return the runs of `failed.txt`."""
    lines = Path(__file__).with_name("failed.txt").read_text().splitlines()
    return [Failed.parse(line) for line in lines if not line.startswith("#")]


def plan_of(seed: int) -> tuple[Settings, list[Event]]:
    """Return the settings and the events of a seed."""
    drawn = random.Random(seed)
    machines = drawn.choice((2, 3, 3))
    settings = Settings(machines, drawn.choice((1, 1, 1, min(2, machines - 1), 0)),
                        drawn.random() < 0.5)  # fmt: skip
    kinds = list(KINDS)
    if not settings.store:
        kinds = [each for each in kinds if each not in ("from_store", "store_fault")]
    weights = [KINDS[each] for each in kinds]
    begin = [Event("primary", 0, 0, 0), Event("follow", 1, 0, 1)]
    if machines > 2:
        begin.append(Event("follow", 2, 0, 1))
    count = drawn.randint(4, 10)
    events = [
        Event(kind, drawn.randrange(machines), drawn.randrange(machines), drawn.randrange(1 << 16))
        for kind in drawn.choices(kinds, weights, k=count)
    ]
    return settings, [*begin, Event("run", 0, 0, 1), *events]
