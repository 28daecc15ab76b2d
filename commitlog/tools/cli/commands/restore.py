"""`commitlog restore`: restore a log from a store or an archive."""

from __future__ import annotations

import dataclasses

import click

from commitlog.errors import InvalidOptionError
from commitlog.keep import restore
from commitlog.tools.cli import parameters
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import byte_progress
from commitlog.tools.cli.quantities import counted


@click.command(cls=UnsuggestedCommand)
@click.argument("store")
@click.argument("directory", type=click.Path())
@click.option(
    "--until",
    type=parameters.time_or_position,
    metavar="TIME|POSITION",
    help="End the log at POSITION, or before the first record newer than TIME (UTC).",
)
@click.option(
    "--follows",
    metavar="URL",
    help="Make the log a copy that `commitlog follow URL DIRECTORY` continues.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *, store: str, directory: str, until: int | str | None, follows: str | None, as_json: bool
) -> None:
    """Restore the log in STORE into an empty directory.

    DIRECTORY is created if it is missing. STORE is a URL such as s3://bucket/orders, a directory,
    or the file of a backup, whose name ends in .tar.zst.

    \b
    Examples:
      commitlog restore s3://bucket/orders orders
      commitlog restore --until 2026-05-01T12:30 s3://bucket/orders before
      commitlog restore --follows tls://a:7070/orders s3://bucket/orders copy
      commitlog restore --until 67108864 /backup/orders before
    """
    try:
        with byte_progress("restore", as_json=as_json) as show:
            done = restore(store, directory, until=until, follows=follows, progress=show)
    except InvalidOptionError as error:
        raise click.UsageError(error.message) from None
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        echo(
            f"{done.path}: restored {counted(done.segments, 'segment')}, positions "
            f"{done.first_position} to {done.end_position}"
        )
