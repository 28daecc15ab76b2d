"""The cycles of a log, for `commitlog info --cycles`."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import asdict

import click

import commitlog
from commitlog.base.moment import read_moment
from commitlog.tail.cycles import Cycle


def cycles_between(log: str, since: str | None, until: str | None) -> Iterator[Cycle]:
    """The cycles that end after one time and begin before another, on the clock of the log's
    zone.
    """
    with commitlog.open(log, "r") as opened:
        cycle = opened.identity.roll_cycle
        zone: dt.tzinfo = dt.UTC if cycle is None else cycle.zone
        low, high = (
            None if given is None else _instant(read_moment(given, zone))
            for given in (since, until)
        )
        if low is not None and high is not None and high < low:
            raise click.UsageError("--to is before --from: nothing lies between")
        for found in opened.cycles():
            if (low is None or found.end is None or found.end > low) and (
                high is None or found.start is None or found.start < high
            ):
                yield found


def _instant(nanoseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=nanoseconds // 1000)


def line(cycle: Cycle) -> str:
    """For people."""
    start, end = (
        "-" if moment is None else moment.isoformat(timespec="seconds")
        for moment in (cycle.start, cycle.end)
    )
    names = " ".join(os.path.basename(file) for file in cycle.files)
    number = "-" if cycle.number is None else str(cycle.number)
    return "\t".join(
        (number, start, end + "+" * (not cycle.over), str(cycle.records), str(cycle.bytes), names)
    )


def as_object(cycle: Cycle) -> dict[str, object]:
    """For programs."""
    start, end = (
        None if moment is None else moment.isoformat() for moment in (cycle.start, cycle.end)
    )
    return asdict(cycle) | {"start": start, "end": end}
