"""`commitlog info`: describe a log, an archive or a segment file; list the cycles of a log."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from dataclasses import asdict

import click

import commitlog
from commitlog import Cycle
from commitlog.base.moment import nanoseconds_of, read_moment
from commitlog.base.option import zone_of
from commitlog.tools.cli import FAILURE, parameters, report
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import size_text
from commitlog.tools.cli.record_format import time_text


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option(
    "--cycles",
    "of_cycles",
    is_flag=True,
    help="Print a line for each roll cycle, or for each segment if LOG rolls by size.",
)
@click.option(
    "--since",
    type=parameters.moment,
    metavar="TIME",
    help="With --cycles, begin with the cycle that contains this time.",
)
@click.option(
    "--until",
    type=parameters.moment,
    metavar="TIME",
    help="With --cycles, end before the first cycle that begins at this time or later.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object; with --cycles, one per line."
)
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    of_cycles: bool,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Describe LOG, an archive or a segment file.

    For a log it prints identity, segments, watermarks, records and the writers that have it open.
    For each topic among the newest 4096 records, it prints how many times smaller compression made
    the messages. ARCHIVE is a directory or a URL. The command changes nothing.

    \b
    Examples:
      commitlog info orders
      commitlog info --json orders
      commitlog info s3://bucket/orders
      commitlog info 00000000000067108864.seg
      commitlog info --cycles --since yesterday --until today orders

    With --cycles it prints number, start, end, records, size and files, separated by tabs. Times
    are in the time zone of the log. A + after the end marks the current cycle.

    The exit status is 1 if a part cannot be read; `commitlog verify` finds the cause.
    """
    if of_cycles:
        for cycle in _cycles_between(log, since, until):
            click.echo(json.dumps(_as_object(cycle)) if as_json else _line(cycle))
        return
    if since is not None or until is not None:
        raise click.UsageError("--since and --until select cycles: add --cycles, or leave them out")
    found = report.report_of(log)
    if found["kind"] == "log":
        report.add_topics(found)
    if as_json:
        print_json(found)
    else:
        echo(*report.lines(found))
    context.exit(FAILURE if found["problems"] else 0)


def _cycles_between(log: str, since: str | None, until: str | None) -> Iterator[Cycle]:
    """Yield the cycles that end after one time and begin before another, in the zone of the log."""
    with commitlog.open(log, "r") as opened:
        cycle = opened.identity.roll_cycle
        zone: dt.tzinfo = dt.UTC if cycle is None else zone_of(cycle.time_zone)
        low, high = (
            None if given is None else read_moment(given, zone) for given in (since, until)
        )
        if low is not None and high is not None and high < low:
            raise click.UsageError("--until is before --since: swap them")
        for found in opened.cycles():
            ended = low is not None and found.end is not None and nanoseconds_of(found.end) <= low
            later = (
                high is not None and found.start is not None and nanoseconds_of(found.start) >= high
            )
            if not ended and not later:
                yield found


def _line(cycle: Cycle) -> str:
    start, end = (
        "-" if moment is None else moment.isoformat(timespec="seconds")
        for moment in (cycle.start, cycle.end)
    )
    names = " ".join(os.path.basename(file) for file in cycle.files)
    number = "-" if cycle.number is None else str(cycle.number)
    current = "+" * (not cycle.over)
    return f"{number}\t{start}\t{end}{current}\t{cycle.records}\t{size_text(cycle.bytes)}\t{names}"


def _as_object(cycle: Cycle) -> dict[str, object]:
    times = {
        f"{name}_time": None if moment is None else time_text(nanoseconds_of(moment))
        for name, moment in (("start", cycle.start), ("end", cycle.end))
    }
    rest = {key: value for key, value in asdict(cycle).items() if key not in ("start", "end")}
    return {"number": rest.pop("number"), **times, **rest}
