"""`commitlog cycles`: the cycles of a log, and their files."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import asdict

import click

import commitlog
from commitlog.base.moment import FORMS, read_moment
from commitlog.cli import parameters
from commitlog.tail.cycles import Cycle

_DAY = dt.timedelta(days=1)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a day such as 2026-11-21, not {text!r}") from None


@click.command()
@click.argument("log", type=click.Path())
@click.option("--day", type=_day, metavar="DAY", help="Those that a part of this day is in, on the clock of the log's zone.")
@click.option("--from", "since", type=parameters.moment, metavar="TIME", help=f"Those that end after it: {FORMS}.")
@click.option("--to", "until", type=parameters.moment, metavar="TIME", help="Those that begin before it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(*, log: str, day: dt.date | None, since: str | None, until: str | None, as_json: bool) -> None:
    """Print the cycles of LOG: number, beginning, end, records, bytes, and the names of their files, with tabs in between.

    Times are on the clock of the log's time zone. The cycle that is still written to has a + behind its end. Of a log that rolls by size
    alone each segment is a line, without a number, from when the log rolled into it until it rolled on.

    \b
    Examples:
      commitlog cycles orders
      commitlog cycles --day 2026-11-21 orders
      commitlog cycles --from -7d --json orders
    """
    if day is not None and (since is not None or until is not None):
        raise click.UsageError("--day and --from or --to exclude each other: use one of them")
    with commitlog.open(log, "r") as opened:
        cycle = opened.identity.roll_cycle
        zone: dt.tzinfo = dt.UTC if cycle is None else cycle.zone
        low, high = _bounds(day, since, until, zone)
        if low is not None and high is not None and high < low:
            raise click.UsageError("--to is before --from: nothing lies between")
        for found in opened.cycles():
            if (low is None or found.end is None or found.end > low) and (high is None or found.start is None or found.start < high):
                click.echo(json.dumps(as_object(found)) if as_json else line(found))


def _bounds(day: dt.date | None, since: str | None, until: str | None, zone: dt.tzinfo) -> tuple[dt.datetime | None, dt.datetime | None]:
    if day is not None:
        return (dt.datetime.combine(day, dt.time(), zone), dt.datetime.combine(min(day, dt.date.max - _DAY) + _DAY, dt.time(), zone))
    low, high = (None if given is None else _instant(read_moment(given, zone)) for given in (since, until))
    return low, high


def _instant(nanoseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=nanoseconds // 1000)


def line(cycle: Cycle) -> str:
    """For people."""
    start, end = ("-" if moment is None else moment.isoformat(timespec="seconds") for moment in (cycle.start, cycle.end))
    names = " ".join(os.path.basename(file) for file in cycle.files)
    number = "-" if cycle.number is None else str(cycle.number)
    return "\t".join((number, start, end + "+" * (not cycle.over), str(cycle.records), str(cycle.bytes), names))


def as_object(cycle: Cycle) -> dict[str, object]:
    """For programs."""
    start, end = (None if moment is None else moment.isoformat() for moment in (cycle.start, cycle.end))
    return asdict(cycle) | {"start": start, "end": end}
