"""`commitlog archive`: puts the old segments of a log into an archive, then deletes them."""

from __future__ import annotations

import datetime as dt
import json

import click

from commitlog.cli import parameters
from commitlog.cli.prune import as_object, lines
from commitlog.errors import InvalidOptionError
from commitlog.keep import Archive, Pruned, archive_segments
from commitlog.retention.archive import LEVEL_DEFAULT


@click.command()
@click.argument("log", type=click.Path())
@click.argument("target")
@click.option(
    "--older-than",
    type=parameters.age,
    metavar="AGE",
    default="0s",
    help="Only segments that the log rolled on from so long ago: 36h, 7d, 4w.",
)
@click.option(
    "--keep", is_flag=True, help="Delete nothing: archive all that is sealed and durable."
)
@click.option(
    "--level",
    type=parameters.whole(1, 22),
    default=LEVEL_DEFAULT,
    show_default=True,
    help="Of zstd.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why no more.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *,
    log: str,
    target: str,
    older_than: dt.timedelta,
    keep: bool,
    level: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move the oldest segments of LOG to an archive.

    TARGET is a directory or an address. A segment is compressed, and deleted when it is whole and
    durable there.

    What is there already is not written again: a run that was ended is resumed by the next. What
    may go is as for `commitlog prune`. An archive is read like a log, by its path or address.

    \b
    Examples:
      commitlog archive orders /backup/orders
      commitlog archive --older-than 7d orders s3://bucket/orders
      commitlog archive --keep orders /backup/orders
      commitlog cat /backup/orders
    """
    try:
        where = Archive(target, level)
    except InvalidOptionError as error:
        raise click.UsageError(error.message) from None
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    done = archive_segments(log, where, older_than=older_than, keep=keep, dry_run=dry_run)
    click.echo(
        json.dumps(as_object(done), indent=2)
        if as_json
        else "\n".join(lines(log, done, _verb(done), target))
    )


def _verb(done: Pruned) -> str:
    return ("would archive" if done.dry_run else "archived") + (
        "" if done.kept else " and delete" if done.dry_run else " and deleted"
    )
