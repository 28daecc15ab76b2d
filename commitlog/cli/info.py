"""`commitlog info`: what a log is, how far it goes, who has it open, its cycles; and the same of an
archive or a segment's file.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict

import click

from commitlog.base.moment import FORMS
from commitlog.cli import FAILURE, cycles, parameters
from commitlog.cli.archive_info import ArchiveInfo
from commitlog.cli.log_info import LogInfo
from commitlog.cli.segment_info import LoneSegmentInfo
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.retention.detached import open_detached


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option(
    "--cycles",
    "of_cycles",
    is_flag=True,
    help="Print a line for each roll cycle, or for each segment if LOG has no cycle.",
)
@click.option(
    "--from",
    "since",
    type=parameters.moment,
    metavar="TIME",
    help=f"With --cycles, those that end after it: {FORMS}.",
)
@click.option(
    "--to",
    "until",
    type=parameters.moment,
    metavar="TIME",
    help="With --cycles, those that begin before it.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, with --cycles one a line."
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
    """Say what LOG, an archive or a segment file is.

    Of a log: identity, segments, watermarks, whether it was closed, and who has it open for
    writing. Changes nothing.

    Of an archive, named by its directory or its address: how many segments it has, how large they
    are there and unpacked, which positions and sequences they hold. Of a single segment's file: its
    base, when the log rolled into it and in which cycle, its seal, and what it holds.

    \b
    Examples:
      commitlog info orders
      commitlog info --json orders
      commitlog info s3://bucket/orders
      commitlog info 00000000000067108864.seg
      commitlog info --cycles --from yesterday --to today orders

    With --cycles: number, beginning, end, records, bytes, and the names of the files, with tabs in
    between. Times are on the clock of the log's time zone. The cycle that is still written to has a
    + behind its end. Of a log that rolls by size alone each segment is a line, without a number,
    from when the log rolled into it until it rolled on.

    Exit status 1 when a part of it cannot be read; `commitlog verify` says more.
    """
    if of_cycles:
        for cycle in cycles.cycles_between(log, since, until):
            click.echo(json.dumps(cycles.as_object(cycle)) if as_json else cycles.line(cycle))
        return
    if since is not None or until is not None:
        raise click.UsageError("--from and --to choose cycles: add --cycles, or leave them out")
    info = _of(log)
    click.echo(json.dumps(asdict(info), indent=2) if as_json else "\n".join(info.lines()))
    context.exit(FAILURE if info.problems else 0)


def _of(path: str) -> LogInfo | ArchiveInfo | LoneSegmentInfo:
    detached = open_detached(path)
    if detached is None:
        return LogInfo.of(path)
    with contextlib.closing(detached):
        return (
            ArchiveInfo.of(detached)
            if isinstance(detached, ArchivedDirectory)
            else LoneSegmentInfo.of(detached)
        )
