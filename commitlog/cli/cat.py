"""`commitlog cat`: a range of a log's records, as values or as a file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import click
import numpy as np

import commitlog
from commitlog.base.moment import read_moment
from commitlog.cli import FAILURE, parameters
from commitlog.cli.ending import Ending
from commitlog.cli.new_file import NewFile
from commitlog.cli.progress import Headway, is_terminal
from commitlog.cli.reading import present_end, reading_options, say_damage
from commitlog.cli.sink import FORMATS, Sink, open_sink
from commitlog.errors import CommitLogError
from commitlog.log.commit_log import CommitLog
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer

_BATCH = 65536
_NO_LIMIT = 1 << 62
_SUFFIXES = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


@dataclass(frozen=True)
class _Asked:
    """The command line."""

    log: str
    format: str | None
    target: str
    overwrite: bool
    start: Start | None
    since: str | None
    to: int | None
    before: str | None
    zone: Any
    count: int | None
    visibility: Visibility
    on_damage: OnDamage


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "-f",
    "--format",
    type=click.Choice(FORMATS),
    help="See above.  [default: by the name of FILE, else lines]",
)
@click.option(
    "-o",
    "--output",
    "target",
    default="-",
    metavar="FILE",
    help="Write to this file; to standard output by default.",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--from",
    "start",
    type=parameters.start("first"),
    metavar="POSITION|first",
    help="Begin here.  [default: first]",
)
@click.option(
    "--from-time",
    "since",
    type=parameters.moment,
    metavar="TIME",
    help="Begin with the first record that is not older.",
)
@click.option(
    "--to",
    type=parameters.position,
    metavar="POSITION",
    help="End before this position; before the present end by default.",
)
@click.option(
    "--to-time",
    "before",
    type=parameters.moment,
    metavar="TIME",
    help="End before the first record that is not older.",
)
@click.option(
    "-z",
    "--time-zone",
    "zone",
    type=parameters.zone,
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Of times without one.",
)
@click.option(
    "-n", "--count", type=parameters.whole(0), metavar="COUNT", help="At most so many records."
)
@reading_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Write the records of LOG, as values or as a file.

    The formats of values alone: lines (a newline after each), null (a NUL byte after each), raw
    (nothing after each), and frames (the length before each, 4 bytes little-endian, as `append
    --frames` reads it). The formats of all fields: parquet, arrow and jsonl.

    FILE is there when all of it is. Memory stays bounded, however long the log is. TIME is as in
    `commitlog tail`.

    \b
    Examples:
      commitlog cat orders
      commitlog cat --from 4096 -n 10 orders
      commitlog cat -f frames orders | commitlog append --frames copy
      commitlog cat --from-time 2026-05-01 --to-time 2026-05-02 -o may-first.parquet orders
      commitlog cat -f jsonl orders | gzip > orders.jsonl.gz
    """
    asked = _Asked(**given)
    format = _format_of(asked)
    with Ending(), commitlog.open(asked.log, "r") as log:
        tailer = log.tailer(visibility=asked.visibility, on_damage=asked.on_damage)
        end = _bounds(log, tailer, asked)
        with _target(asked) as file, _headway(asked, end - tailer.position) as headway:
            sink = open_sink(file, format)
            records, told = _write(
                tailer, end, _NO_LIMIT if asked.count is None else asked.count, sink, headway
            )
            sink.close()
    if asked.target != "-":
        click.echo(f"{records} record{'s' * (records != 1)} to {asked.target}", err=True)
    context.exit(FAILURE if told else 0)


def _format_of(asked: _Asked) -> str:
    if asked.start is not None and asked.since is not None:
        raise click.UsageError("--from and --from-time both say where to begin: use one of them")
    if asked.to is not None and asked.before is not None:
        raise click.UsageError("--to and --to-time both say where to end: use one of them")
    if asked.to is not None and isinstance(asked.start, int) and asked.to < asked.start:
        raise click.UsageError(
            f"--to ({asked.to}) is below --from ({asked.start}): nothing lies between"
        )
    if asked.overwrite and asked.target == "-":
        raise click.UsageError(
            "--overwrite is about a file, and standard output is written to: add -o FILE, or "
            "leave it out"
        )
    known = _SUFFIXES.get(os.path.splitext(asked.target)[1].lower())
    format = asked.format or known or "lines"
    if known not in (None, format):
        raise click.UsageError(
            f"--format {format} and the name {asked.target}, which says {known}, contradict each "
            "other: change one"
        )
    if asked.target == "-" and format in ("parquet", "arrow") and is_terminal(sys.stdout):
        raise click.UsageError(
            f"{format} is nothing for a terminal: add -o FILE, or send it to another program"
        )
    return format


def _bounds(log: CommitLog, tailer: Tailer, asked: _Asked) -> int:
    """Bring the tailer to the beginning; the end."""
    end = present_end(log) if asked.to is None else asked.to
    if asked.before is not None and tailer.seek(timestamp=read_moment(asked.before, asked.zone)):
        end = tailer.position
    if asked.since is not None:
        tailer.seek(timestamp=read_moment(asked.since, asked.zone))
    else:
        tailer.seek("first" if asked.start is None else asked.start)
    return end


@contextlib.contextmanager
def _target(asked: _Asked) -> Iterator[IO[bytes]]:
    if asked.target != "-":
        with NewFile(asked.target, overwrite=asked.overwrite) as new:
            yield new.file
        return
    if sys.stdout is None:
        raise click.ClickException("standard output is closed: there is nowhere to print to")
    try:
        yield sys.stdout.buffer
    except CommitLogError:
        sys.stdout.flush()  # what came before the damage, before the word about it
        raise
    sys.stdout.flush()


def _headway(asked: _Asked, total: int) -> contextlib.AbstractContextManager[Headway]:
    """Progress is shown if the records go to a file; otherwise it would mix with them."""
    headway = Headway("cat", max(0, total))
    return contextlib.nullcontext(headway) if asked.target == "-" else headway


def _write(tailer: Tailer, end: int, left: int, sink: Sink, headway: Headway) -> tuple[int, int]:
    """Write at most `left` records below `end`; how many they were, and how many damaged places
    were passed.
    """
    began = tailer.position
    records = told = 0
    while (
        tailer.position < end
        and left > records
        and len(batch := tailer.read_batch(max_records=min(left - records, _BATCH)))
    ):
        count = int(np.searchsorted(batch.positions, end))
        if count:
            sink.write(batch, count)
        told = say_damage(tailer, told)
        records += count
        headway.show(min(tailer.position, end) - began, records)
        if count < len(batch):
            break
    return records, say_damage(tailer, told)
