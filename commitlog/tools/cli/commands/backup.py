"""`commitlog backup`: copy a log whole, while it is written."""

from __future__ import annotations

import dataclasses
from typing import get_args

import click

from commitlog.errors import InvalidOptionError
from commitlog.keep import BackedUp, backup
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import byte_progress
from commitlog.tools.cli.quantities import counted, size_text
from commitlog.types import BackupContent


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.argument("to")
@click.option(
    "--incremental",
    is_flag=True,
    help="Continue the backup at TO: write only what it lacks.",
)
@click.option(
    "--without",
    type=click.Choice(get_args(BackupContent)),
    multiple=True,
    help="Leave this out of the backup. Can be given several times.",
)
@click.option("--no-verify", is_flag=True, help="Do not read what was written again.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *,
    log: str,
    to: str,
    incremental: bool,
    without: tuple[BackupContent, ...],
    no_verify: bool,
    as_json: bool,
) -> None:
    """Copy LOG whole to TO, while programs append to it.

    TO is a directory, which is a log then; a file whose name ends in .tar.zst; or a URL such as
    s3://bucket/orders. LOG may also be a URL, an archive or a store. TO gets its name when it is
    whole, durable and verified.

    \b
    Examples:
      commitlog backup orders /backup/orders
      commitlog backup --incremental orders /backup/orders
      commitlog backup orders /backup/orders-2026-05-01.tar.zst
      commitlog backup --without queues --incremental orders s3://bucket/orders
    """
    try:
        with byte_progress("backup", as_json=as_json) as show:
            done = backup(
                log,
                to,
                incremental=incremental,
                without=without,
                verify=not no_verify,
                progress=show,
            )
    except InvalidOptionError as error:
        raise click.UsageError(error.message) from None
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        echo(*lines(log, done))


def lines(log: str, done: BackedUp) -> list[str]:
    found = [
        *(f"tailer {name}" for name in done.tailers),
        *(f"queue {name}" for name in done.queues),
        *(["producers"] if done.producers else []),
        *(["schemas"] if done.schemas else []),
    ]
    verb = "written and verified" if done.verified else "written"
    return [
        (
            f"{log}: backed up {counted(done.segments, 'segment')}, positions "
            f"{done.first_position} to {done.end_position}, to {done.path}"
        ),
        f"  {size_text(done.written_bytes)} in {counted(done.written_segments, 'segment')} {verb}",
        f"  with {', '.join(found) or 'records only'}",
    ]
