"""`commitlog prune`: deletes the old segments of a log."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from dataclasses import asdict

import click

from commitlog.cli import parameters
from commitlog.errors import InvalidOptionError
from commitlog.keep import Pruned, Retention, prune


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--older-than",
    type=parameters.age,
    metavar="AGE",
    help="Segments that the log rolled on from so long ago: 36h, 7d, 4w.",
)
@click.option(
    "--max-bytes",
    type=parameters.size,
    metavar="SIZE",
    help="Until the segments take no more than this: 10GiB.",
)
@click.option(
    "--min-free",
    metavar="SIZE|PERCENT",
    help="Until the file system has this much free: 5GiB, 10%.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go, and why no more.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *,
    log: str,
    older_than: dt.timedelta | None,
    max_bytes: int | None,
    min_free: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete the oldest segments of LOG.

    Those go that any of the options asks for. LOG may be open.

    Only sealed and durable segments go, never one that a required tailer has yet to read, and the
    last sealed one stays. Says what went, and why the next one stays.

    \b
    Examples:
      commitlog prune --older-than 7d orders
      commitlog prune --max-bytes 10GiB --dry-run orders
      commitlog prune --min-free 15% orders
    """
    pruned = prune(log, retention_of(older_than, max_bytes, min_free), dry_run=dry_run)
    click.echo(
        json.dumps(as_object(pruned), indent=2) if as_json else "\n".join(lines(log, pruned))
    )


def retention_of(
    older_than: dt.timedelta | None, max_bytes: int | None, min_free: str | None
) -> Retention:
    """What the options ask for.

    Raises
    ------
    click.UsageError
        They ask for nothing, or for what cannot be.
    """
    if older_than is None and max_bytes is None and min_free is None:
        raise click.UsageError("say what may go: --older-than, --max-bytes or --min-free")
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
        f"--min-free must be a size or a part of the disk, such as 5GiB or 10%, not {text!r}"
    )


def as_object(pruned: Pruned) -> dict[str, object]:
    """For scripts."""
    return {"bytes": pruned.bytes, **asdict(pruned)}


def lines(log: str, pruned: Pruned, verb: str = "", target: str = "") -> list[str]:
    """For people."""
    what = verb or ("would delete" if pruned.dry_run else "deleted")
    where = f", to {target}" if target else ""
    said = [f"{log}: {what} {len(pruned.segments)} segments, {pruned.bytes} bytes{where}"]
    said += [
        f"  {removal.path}: {removal.bytes} bytes, {removal.reason}" for removal in pruned.segments
    ]
    stays = "is not archived" if pruned.kept else "stays"
    return [*said, f"  position {pruned.first_position} {stays}: {pruned.stopped_by}"]
