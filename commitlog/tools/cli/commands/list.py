"""`commitlog list`: list the logs below a directory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import click

from commitlog.base.path import translate_errors
from commitlog.errors import CommitLogError
from commitlog.errors.printable import printable
from commitlog.tools.cli import FAILURE
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import size_text
from commitlog.tools.cli.record_format import time_text
from commitlog.tools.cli.report import Report, report_of

_KEYS = (
    "path",
    "uuid",
    "state",
    "disk_bytes",
    "records",
    "first_timestamp_ns",
    "last_timestamp_ns",
    "problems",
)


@click.command()
@click.argument(
    "folder", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False)
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, *, folder: str, as_json: bool) -> None:
    """List the logs below DIR and their health.

    A line has path, size, records, the timestamps of the first and the last record, and health. DIR
    is the current directory by default. Links are not followed.

    \b
    Examples:
      commitlog list
      commitlog list --json /var/lib/orders

    The exit status is 1 if a log or a directory cannot be read; `commitlog verify` checks one log
    completely.
    """
    if not os.path.isdir(folder):
        raise click.BadParameter(f"{folder!r} is not a directory", param_hint="DIR")
    unreadable: list[OSError] = []
    found = list(_reports(folder, unreadable.append))
    if as_json:
        print_json({"path": folder, "logs": found})
    elif not found:
        echo(f"there is no log below {folder}", err=True)
    else:
        _print(found)
    for error in unreadable:
        path = os.fsdecode(error.filename)
        echo(f"commitlog: cannot read {path}: {error.strerror}", err=True)
    context.exit(FAILURE if unreadable or any(report["problems"] for report in found) else 0)


def _reports(folder: str, on_error: Callable[[OSError], None]) -> Iterator[Report]:
    for place, folders, files in os.walk(folder, onerror=on_error):
        folders.sort()
        if "log.json" not in files:
            continue
        folders.clear()  # there are no logs inside a log
        report: Report = dict.fromkeys(_KEYS) | {"path": place, "problems": []}
        try:
            with translate_errors(place, "read the log"):
                found = report_of(place)
            report |= {key: content for key, content in found.items() if key in _KEYS}
        except CommitLogError as error:
            report["problems"] = [str(error)]
        yield report


def _print(reports: list[Report]) -> None:
    rows: list[tuple[str, ...]] = [("log", "size", "records", "from", "to", "health")]
    for report in reports:
        size = "?" if report["disk_bytes"] is None else size_text(report["disk_bytes"])
        records = "?" if report["records"] is None else f"{report['records']:,}"
        span = [
            "-" if at is None else time_text(at)[:19] + "Z"
            for at in (report[key] for key in _KEYS[5:7])
        ]
        health = report["problems"][0] if report["problems"] else report["state"]
        rows.append((printable(report["path"]), size, records, *span, printable(health)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "{:{}}  {:>{}}  {:>{}}  {:{}}  {:{}}  {:{}}"
    for row in rows:
        padded = itertools.chain(*zip(row, widths, strict=True))
        echo(line.format(*padded).rstrip())
