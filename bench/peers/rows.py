"""The rows of the comparison: the processes of each, and its goals."""

from __future__ import annotations

from dataclasses import dataclass

PEER = "mappedbus"
MILLION = 1_000_000


@dataclass(frozen=True)
class Role:
    """The role of one process: its name in `ours.py` and `MappedbusPeer.java`, and the form of the
    loop in `ours.py`.
    """

    name: str
    form: str = ""


@dataclass(frozen=True)
class Side:
    """One library, or one use of commitlog, in a row.

    Attributes
    ----------
    name : str
        "mappedbus", or how commitlog is used.
    roles : tuple of Role
        The processes in the order of their start; the parent releases all at once.
    measured : int
        The index of the process whose figures count.
    before : tuple of Role
        Processes that run to their end first and are not measured.
    """

    name: str
    roles: tuple[Role, ...]
    measured: int = 0
    before: tuple[Role, ...] = ()


@dataclass(frozen=True)
class Goal:
    """The goal of a row: at most `most` times the figure of the peer."""

    side: str
    most: float
    figure: str = "nanoseconds"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    name, title : str
        The name on the command line, and the heading.
    sides : tuple of Side
        The sides, which take turns.
    messages, warm : int
        Measured messages of each writer, and the warm-up messages before them.
    writers : int
        The number of writers.
    per_minute : int
        The rate in messages; 0 is as fast as possible.
    unit : str
        "message" for nanoseconds a message, "latency" for percentiles, "whole" for the total time.
    goals : tuple of Goal
        The goals.
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
    """Return sides of two processes; the figures of the second count."""
    return tuple(Side(name, (Role(first), Role(second)), measured=1) for name in ("values", PEER))


_WRITTEN = (Role("write", "array"),)
_PERCENTILES = ("p50", "p99", "p999")
ROWS = (
    Row(
        "alone",
        "one writer, no reader",
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
        "reading all messages again",
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
