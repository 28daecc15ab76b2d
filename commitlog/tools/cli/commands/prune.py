"""`commitlog prune`: delete the oldest segments of a log."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import asdict
from typing import get_args

import click

from commitlog.errors import InvalidOptionError
from commitlog.keep import Pruned, Retention, prune
from commitlog.tools.cli import parameters
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.progress import byte_progress
from commitlog.tools.cli.quantities import size_text
from commitlog.types import Waivable


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.option(
    "--older-than",
    type=parameters.age,
    metavar="AGE",
    help="Delete segments older than this: 36h, 7d, yesterday.",
)
@click.option(
    "--max-bytes",
    type=parameters.size,
    metavar="SIZE",
    help="Delete segments until the rest takes at most this much: 10G.",
)
@click.option(
    "--min-free",
    metavar="SIZE|PERCENT",
    help="Delete segments until this much of the file system is free: 5G, 10%.",
)
@click.option(
    "--force",
    type=click.Choice(get_args(Waivable)),
    multiple=True,
    help="Delete also what the store of the log, or its required copies, do not have. Records that "
    "only LOG has are lost. Can be given twice.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *,
    log: str,
    older_than: dt.timedelta | None,
    max_bytes: int | None,
    min_free: str | None,
    force: tuple[Waivable, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete the oldest segments of LOG.

    At least one of --older-than, --max-bytes and --min-free is needed. A segment is deleted if one
    of them selects it. LOG may be open.

    A segment stays until it is sealed and durable, every required tailer has read it, and the store
    and the required copies of LOG, if there are any, have it; the last sealed one always stays. The
    output gives the reason why the next segment stays. The age of a segment counts from the time at
    which the log rolled to the next one.

    \b
    Examples:
      commitlog prune --older-than 7d orders
      commitlog prune --max-bytes 10GiB --dry-run orders
      commitlog prune --min-free 15% orders
    """
    rule = retention_of(older_than, max_bytes, min_free)
    with byte_progress("prune", as_json=as_json) as show:
        pruned = prune(log, rule, dry_run=dry_run, force=force, progress=show)
    if as_json:
        print_json(as_object(log, pruned))
    else:
        echo(*lines(log, pruned))


def retention_of(
    older_than: dt.timedelta | None, max_bytes: int | None, min_free: str | None
) -> Retention:
    if older_than is None and max_bytes is None and min_free is None:
        raise click.UsageError(
            "nothing selects segments: add --older-than, --max-bytes or --min-free"
        )
    free, percent = _room(min_free)
    try:
        return Retention(
            max_age=older_than, max_bytes=max_bytes, min_free_bytes=free, min_free_percent=percent
        )
    except InvalidOptionError as error:
        raise click.UsageError(f"--min-free {error.message.partition(' ')[2]}") from None


def _room(text: str | None) -> tuple[int | None, float | None]:
    if text is None:
        return None, None
    with contextlib.suppress(click.BadParameter, ValueError):
        if not text.endswith("%"):
            return parameters.size(text), None
        if text.isascii():
            return None, float(text[:-1])
    raise click.UsageError(
        f"--min-free must be a size or a percentage, such as 5GiB or 10%, not {text!r}"
    )


def as_object(log: str, pruned: Pruned) -> dict[str, object]:
    removals = [
        {
            "path": found.path,
            "base_position": found.position,
            "disk_bytes": found.bytes,
            "reason": found.reason,
        }
        for found in pruned.segments
    ]
    return {"path": log, "disk_bytes": pruned.bytes, **asdict(pruned), "segments": removals}


def lines(log: str, pruned: Pruned, verb: str = "", target: str = "") -> list[str]:
    what = verb or ("would delete" if pruned.dry_run else "deleted")
    where = f", to {target}" if target else ""
    text = [f"{log}: {what} {len(pruned.segments)} segments, {size_text(pruned.bytes)}{where}"]
    text += [
        f"  {removal.path}: {size_text(removal.bytes)}, {removal.reason}"
        for removal in pruned.segments
    ]
    stays = "is not archived" if pruned.kept else "stays"
    return [*text, f"  position {pruned.first_position} {stays}: {pruned.stopped_by}"]
