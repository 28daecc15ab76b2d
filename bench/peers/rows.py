"""The rows of the comparison: which processes take part in each, and what had been asked for."""

from __future__ import annotations

from dataclasses import dataclass

PEER = "mappedbus"
MILLION = 1_000_000


@dataclass(frozen=True)
class Role:
    """What one process does: its name in `ours.py` and `MappedbusPeer.java`, and the form of our
    own loop.
    """

    name: str
    form: str = ""


@dataclass(frozen=True)
class Side:
    """One way to do a row.

    Attributes
    ----------
    name : str
        "mappedbus", or how commitlog was used.
    roles : tuple of Role
        The processes, in the order in which they start; the parent lets all go at once.
    measured : int
        Which of them says what it took.
    before : tuple of Role
        What runs first, to its end, and is not counted.
    """

    name: str
    roles: tuple[Role, ...]
    measured: int = 0
    before: tuple[Role, ...] = ()


@dataclass(frozen=True)
class Goal:
    """At most so many times the peer's figure, in one percentile or in nanoseconds a message."""

    side: str
    most: float
    figure: str = "nanoseconds"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    name, title : str
        For the command line, and for people.
    sides : tuple of Side
        What takes turns.
    messages, warm : int
        How many messages of each writer are counted, and how many come before them.
    writers : int
        How many append.
    per_minute : int
        The rate that is kept; 0 is as fast as it goes.
    unit : str
        "message" for nanoseconds a message, "latency" for percentiles, "whole" for the time of it
        all.
    goals : tuple of Goal
        What was asked for.
    """

    name: str
    title: str
    sides: tuple[Side, ...]
    messages: int
    warm: int
    writers: int = 1
    per_minute: int = 0
    unit: str = "message"
    goals: tuple[Goal, ...] = ()


def _live(writers: int) -> tuple[Side, ...]:
    roles = (Role("write", "single"),) * writers
    forms = ("values", "follow") if writers == 1 else ("values",)
    ours = tuple(Side(form, (*roles, Role("read", form)), measured=writers) for form in forms)
    return (*ours, Side(PEER, (*roles, Role("read")), measured=writers))


def _pair(first: str, second: str) -> tuple[Side, ...]:
    """Two processes; the second one's figures count."""
    return tuple(Side(name, (Role(first), Role(second)), measured=1) for name in ("values", PEER))


_WRITTEN = (Role("write", "array"),)
_PERCENTILES = ("p50", "p99", "p999")
ROWS = (
    Row(
        "alone",
        "one writer, nobody reads",
        tuple(Side(name, (Role("write", name),)) for name in ("single", "array", PEER)),
        messages=5 * MILLION,
        warm=2 * MILLION,
        goals=(Goal("array", 0.2),),
    ),
    Row(
        "live",
        "one writer, one reader",
        _live(1),
        messages=5 * MILLION,
        warm=2 * MILLION,
        goals=(Goal("values", 1.0),),
    ),
    Row(
        "replay",
        "reading it all again",
        tuple(
            Side(name, (Role("read", name),), before=_WRITTEN) for name in ("values", "batch", PEER)
        ),
        messages=8 * MILLION,
        warm=2 * MILLION,
        goals=(Goal("batch", 1.0),),
    ),
    *(
        Row(
            f"writers-{writers}",
            f"{writers} writers, one reader",
            _live(writers),
            messages=4 * MILLION // writers,
            warm=2 * MILLION // writers,
            writers=writers,
            goals=(Goal("values", 1.0),),
        )
        for writers in (2, 8)
    ),
    Row(
        "round-trip",
        "there and back, two spinning processes",
        _pair("pong", "ping"),
        messages=500_000,
        warm=100_000,
        unit="latency",
        goals=(Goal("values", 1.2, "p50"), Goal("values", 1.0, "p999")),
    ),
    *(
        Row(
            f"paced-{rate}",
            f"{rate} million a minute, from when a message was due",
            _pair("paced-write", "paced-read"),
            messages=rate * MILLION // 40,
            warm=rate * MILLION // 240,
            per_minute=rate * MILLION,
            unit="latency",
        )
        for rate in (10, 60, 100)
    ),
    *(
        Row(
            f"dead-{dead}",
            f"claims of dead writers in a reader's way: {dead}",
            (Side("read", (Role("dead"),)),),
            messages=1,
            warm=0,
            writers=dead,
            unit="whole",
        )
        for dead in (1, 20)
    ),
    Row(
        "sizes",
        "values of 0 to 257 bytes, one writer",
        (Side("single", (Role("sizes"),)),),
        messages=10_000,
        warm=0,
        unit="sizes",
    ),
)
BY_NAME = {row.name: row for row in ROWS}
