"""`commitlog archive`: move the oldest segments of a log to an archive."""

from __future__ import annotations

import datetime as dt

import click

from commitlog.errors import InvalidOptionError
from commitlog.keep import Pruned, Store, archive_segments
from commitlog.stores.store_options import LEVEL_DEFAULT
from commitlog.tools.cli import parameters
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.commands.prune import as_object, lines
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import byte_progress


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.argument("target")
@click.option(
    "--older-than",
    type=parameters.age,
    metavar="AGE",
    default="0s",
    show_default=True,
    help="Move only segments older than this: 36h, 7d, yesterday.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Archive all sealed and durable segments, and delete nothing.",
)
@click.option(
    "--level",
    type=parameters.whole(1, 22),
    metavar="N",
    default=LEVEL_DEFAULT,
    show_default=True,
    help="Compress with zstd at this level.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be moved, and move nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
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

    TARGET is a directory or a URL such as s3://bucket/orders. Each segment is compressed into
    TARGET, and deleted from LOG once it is durable there.

    The next run resumes an interrupted one. A segment is deleted under the conditions of
    `commitlog prune`. Commands that read a log also read an archive.

    \b
    Examples:
      commitlog archive orders /backup/orders
      commitlog archive --older-than 7d orders s3://bucket/orders
      commitlog archive --keep orders /backup/orders
      commitlog cat /backup/orders
    """
    try:
        where = Store(target, level)
    except InvalidOptionError as error:
        raise click.UsageError(error.message) from None
    with byte_progress("archive", as_json=as_json) as show:
        done = archive_segments(
            log, where, older_than=older_than, keep=keep, dry_run=dry_run, progress=show
        )
    if as_json:
        print_json(as_object(log, done))
    else:
        echo(*lines(log, done, _verb(done), target))


def _verb(done: Pruned) -> str:
    return ("would archive" if done.dry_run else "archived") + (
        "" if done.kept else " and delete" if done.dry_run else " and deleted"
    )
