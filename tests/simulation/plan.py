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
    "serve": 2,
    "promote_two": 2,
    "wait": 1,
    "isolate": 1,
    "power_cut": 4,
    "cut_at": 4,
    "disk_fault": 3,
    "overwrite": 1,
    "reader": 3,
    "liar": 1,
    "lose_part": 1,
}


@dataclass(frozen=True)
class Settings:
    """What is the same during a run."""

    machines: int
    require: int
    store: bool
    big: bool = False  # records: a segment is full after some ten of them


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
class Family:
    """Events that users meet in this order; a plan has most of them, and others in between.

    Attributes
    ----------
    events : list of str
        Kinds, with the machines and the number that are fixed. Numbers of a promotion: 40, it
        names no other log; 41, the first of the others; 42, the second; 43, both; 17, the first,
        and it is forced because the log was restored; 11, both, and all is forced. A log is opened
        after an odd number.
    machines, require, store
        The settings; None: any.
    others : (int, int)
        How many other events follow.
    """

    events: list[str]
    machines: int | None = None
    require: int | None = None
    store: bool | None = None
    others: tuple[int, int] = (0, 2)


_ANYTHING_SHARE = 5  # seeds with events of any kind, to one of each family
_KEPT, _AMONG = 0.95, 0.08  # chances: of an event of the family, and of another one behind it
ANYTHING = Family([], others=(4, 10))
FAMILIES = [
    # A primary that was replaced is started again, and a copy finds it.
    Family(["kill 0", "serve 0", "promote 1 1 41", "kill 0", "primary 0", "follow 2 0", "run"],
           3, 1),
    # A copy is promoted while its primary goes on with another copy.
    Family(["isolate 2 0", "promote 2 2 42", "run", "kill 1", "follow 1 0 1", "run", "read 1"],
           3, 1),
    # A copy has an older state, its primary is lost, and another copy is promoted.
    Family(["backup 1", "kill 2", "run", "kill 0", "restore 1 1 1", "follow 1 0 1",
            "promote 2 2 43"], 3, 1),
    Family(["backup 1", "run", "kill 0", "restore 1 1 1", "promote 1 1 17"], 2, 1),
    # A primary has an older state.
    Family(["backup 0", "run", "kill 0", "restore 0", "primary 0", "run", "follow 1 0", "run"]),
    Family(["backup 0", "wait", "kill 1", "rollback 0", "primary 0", "run", "follow 1 0 1", "run"]),
    Family(["backup 0", "run", "rollback 0", "serve 1", "promote 0", "primary 0", "run"]),
    Family(["backup 0", "run", "rollback 0", "primary 0", "run", "from_store", "run"], store=True),
    Family(["backup 0", "run", "restore 0", "wait", "wait", "follow 1 0"], require=1),
    # Two promotions: at once, or one after the other.
    Family(["kill 0", "serve 0", "promote_two 1 2 11051", "primary 1", "primary 2", "run"], 3, 1),
    Family(["kill 0", "promote_two 0 1 10793", "primary 1", "primary 0", "wait"], 2, store=True),
    Family(["failover 1", "run", "failover 0", "start 1", "run", "failover 1", "start 0"]),
    # An operator names few of the others.
    Family(["run", "promote 1 1 40", "run", "primary 1", "run", "follow 2 1", "run", "follow 2 0"],
           3, 1),
    # A copy is opened as if it were the primary.
    Family(["kill 1", "primary 1", "run", "follow 2 1", "run"]),
    # A copy is behind.
    Family(["isolate 1 0", "run", "failover 1", "run", "heal", "start 0", "run"]),
    Family(["kill 1", "run 0 0 3", "kill 0", "promote 1 1 41", "primary 1", "run", "from_store"],
           machines=2, require=0, store=True),
    Family(["isolate 0 1", "isolate 0 2", "run", "failover 1", "heal", "start 0", "run"], 3),
    # Writers of one store.
    Family(["promote 1 1 46", "wait", "primary 1", "wait", "from_store"], 2, store=True),
    Family(["kill 0", "promote 1 1 46", "primary 1", "run", "kill 1", "primary 0", "wait",
            "kill 0", "primary 1", "run"], store=True, require=0, machines=2),
    Family(["pause 0 0 4", "promote 1 1 46", "primary 1", "run", "heal", "wait", "from_store"],
           store=True),
    Family(["kill 0", "clone 0 1", "primary 1", "run", "primary 0", "wait"], store=True, require=0),
    # A log is cloned, and both go on.
    Family(["clone 0 1", "primary 1", "run", "kill 2", "follow 2 1", "run", "read 2"], 3, 0),
    # Readers, while logs are promoted, cut and deleted.
    Family(["reader 0 0 1", "reader 1 1 2", "run", "isolate 1 0", "isolate 2 0", "run",
            "promote 1 1 11", "heal", "kill 0", "follow 0 1 1", "reader 1 1 1", "run",
            "run"], 3, 1),
    Family(["reader 0 0 1", "reader 0 0 2", "run", "kill 0", "run", "primary 0", "delete 0", "run",
            "power_cut 0", "reader 0 0 2", "primary 0", "run"]),
    Family(["reader 1 1 2", "run", "isolate 0 1", "isolate 0 2", "run", "reader 0 0 2",
            "promote 1 1 11", "run", "heal", "kill 0", "reader 0 0 1", "follow 0 1 1", "run",
            "run"], 3, 1),
    # The power of a machine is cut, also at a step of a program.
    Family(["run", "power_cut 0", "primary 0", "run", "power_cut 1", "follow 1 0 1", "run"]),
    Family(["cut_at 0", "primary 0", "run", "cut_at 0", "primary 0", "run", "follow 1 0 1"],
           require=0),
    Family(["run", "cut_at 1", "follow 1 0 1", "cut_at 1", "power_cut 0", "promote 1 1 43", "run"],
           3, 1),
    Family(["power_cut 0", "serve 0", "promote 1 1 43", "cut_at 0", "cut_at 1", "primary 1",
            "follow 0 1 1", "follow 2 1 1", "cut_at 0", "follow 0 1 1", "run"], 3, 1),
    Family(["run", "delete 0", "cut_at 0", "primary 0", "run", "delete 0", "cut_at 0",
            "from_store", "primary 0", "run"], store=True),
    # A disk fails, or is full.
    Family(["disk_fault 0", "run", "heal", "kill 0", "primary 0", "run", "disk_fault 1", "run",
            "heal", "follow 1 0 1", "run", "power_cut 1", "follow 1 0 1"]),
    # A backup is written over a copy that goes on.
    Family(["backup 1", "run", "kill 2", "overwrite 1 1 1", "run", "restore 1 1 1", "follow 1 0 4",
            "run", "overwrite 1 1 0", "run", "follow 2 0 1", "kill 0", "promote 2 2 43"], 3, 1),
    # A part is lost from a store, and a peer lies.
    Family(["run", "run", "lose_part 0 0 1", "from_store"], store=True),
    Family(["kill 2", "liar 0 1", "run", "isolate 1 0", "run", "liar 0 1", "run"], 3, 1),
    # Retention with a store.
    Family(["run", "delete 0", "run", "run", "delete 0", "kill 0", "primary 0", "run", "delete 0",
            "from_store"], store=True),
    Family(["store_fault 0 0 1", "run", "run", "delete 0", "run", "heal", "kill_at 0", "from_store",
            "primary 0", "run", "delete 0", "wait"], store=True),
]  # fmt: skip


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
        machines, require, *switches = settings.split()
        fixed = Settings(int(machines), int(require), *(each == "True" for each in switches))
        return cls(what, int(seed), fixed, [Event.parse(each) for each in events.split(";")])


def failed_runs() -> list[Failed]:
    """Return the runs of `failed.txt`."""
    lines = Path(__file__).with_name("failed.txt").read_text().splitlines()
    return [Failed.parse(line) for line in lines if not line.startswith("#")]


def plan_of(seed: int) -> tuple[Settings, list[Event]]:
    """Return the settings and the events of a seed: those of a family, among others."""
    drawn = random.Random(seed)
    families = [*FAMILIES, *[ANYTHING] * _ANYTHING_SHARE]
    family = families[seed % len(families)]
    machines = family.machines or drawn.choice((2, 3, 3))
    most = min(2, machines - 1)
    require = drawn.choice((1, 1, 1, most, 0)) if family.require is None else family.require
    store = drawn.random() < 0.5 if family.store is None else family.store
    settings = Settings(machines, require, store, drawn.random() < (0.7 if store else 0.2))
    kinds = list(KINDS)
    if not store:
        kinds = [each for each in kinds if each not in ("from_store", "store_fault", "lose_part")]
    weights = [KINDS[each] for each in kinds]

    def event(kind: str, *named: str) -> Event:
        known = [int(each) for each in named]
        any_ = drawn.randrange(machines), drawn.randrange(machines), drawn.randrange(1 << 16)
        first, second, number = (*known, *any_[len(known) :])
        return Event(kind, first, second, number)

    def any_event() -> Event:
        return event(drawn.choices(kinds, weights)[0])

    events = [Event("primary", 0, 0, 0)]
    events += [Event("follow", each, 0, 1) for each in range(1, machines)]
    events.append(Event("run", 0, 0, 1))
    for each in family.events:
        if drawn.random() < _KEPT:
            events.append(event(*each.split()))
        if drawn.random() < _AMONG:
            events.append(any_event())
    events += [any_event() for _ in range(drawn.randint(*family.others))]
    return settings, events
