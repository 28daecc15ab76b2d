"""`commitlog export`: records as a Parquet or Arrow file, or as JSON lines."""

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
from commitlog.cli.sink import Sink, open_sink
from commitlog.log.commit_log import CommitLog
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.tailer import OnDamage, Tailer

FORMATS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class _Asked:
    """What stands on the command line."""

    log: str
    format: str | None
    target: str
    overwrite: bool
    start: Start | None
    since: str | None
    to: int | None
    before: str | None
    zone: Any
    visibility: Visibility
    on_damage: OnDamage


@click.command()
@click.argument("log", type=click.Path())
@click.option("--format", type=click.Choice(["parquet", "jsonl", "arrow"]), help="What the name of FILE says, if nothing is said.")
@click.option("-o", "--output", "target", default="-", metavar="FILE", help="Write to this file; to standard output by default.")
@click.option("--overwrite", is_flag=True, help="FILE may be there already.")
@click.option("--from", "start", type=parameters.start("first"), metavar="POSITION|first", help="Begin here.")
@click.option("--from-time", "since", type=parameters.moment, metavar="TIME", help="Begin with the first record that is not older.")
@click.option("--to", type=parameters.position, metavar="POSITION", help="End before this position; before the present end by default.")
@click.option("--to-time", "before", type=parameters.moment, metavar="TIME", help="End before the first record that is not older.")
@click.option(
    "-z", "--time-zone", "zone", type=parameters.zone, default="UTC", show_default=True, metavar="ZONE", help="Of times without one."
)
@reading_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Write records of LOG to a file: position, sequence, timestamp, type, key, value.

    FILE is there when all of it is. Memory stays bounded, however long the log is. TIME is as in `commitlog tail`.

    \b
    Examples:
      commitlog export orders -o orders.parquet
      commitlog export orders --from-time 2026-05-01 --to-time 2026-05-02 -o may-first.parquet
      commitlog export orders --format jsonl --from 4096 | gzip > orders.jsonl.gz
      commitlog export orders --format arrow --overwrite -o /tmp/orders.arrow
    """
    asked = _Asked(**given)
    format = _format_of(asked)
    with Ending(), commitlog.open(asked.log, "r") as log:
        tailer = log.tailer(visibility=asked.visibility, on_damage=asked.on_damage)
        end = _bounds(log, tailer, asked)
        with _target(asked, format) as file, Headway("export", max(0, end - tailer.position)) as headway:
            sink = open_sink(file, format)
            records, told = _write(tailer, end, sink, headway)
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
        raise click.UsageError(f"--to ({asked.to}) is below --from ({asked.start}): nothing lies between")
    if asked.overwrite and asked.target == "-":
        raise click.UsageError("--overwrite is about a file, and standard output is written to: add -o FILE, or leave it out")
    known = FORMATS.get(os.path.splitext(asked.target)[1].lower())
    format = asked.format or known
    if format is None:
        raise click.UsageError(f"say --format, or name a FILE with -o that ends with one of {', '.join(FORMATS)}")
    if known is not None and known != format:
        raise click.UsageError(f"--format {format} and the name {asked.target}, which says {known}, contradict each other: change one")
    if asked.target == "-" and format != "jsonl" and is_terminal(sys.stdout):
        raise click.UsageError(f"{format} is nothing for a terminal: add -o FILE, or send it to another program")
    return format


def _bounds(log: CommitLog, tailer: Tailer, asked: _Asked) -> int:
    """Bring the tailer to the beginning; the end."""
    end = present_end(log, tailer) if asked.to is None else asked.to
    if asked.before is not None and tailer.seek(timestamp=read_moment(asked.before, asked.zone)):
        end = tailer.position
    if asked.since is not None:
        tailer.seek(timestamp=read_moment(asked.since, asked.zone))
    else:
        tailer.seek("first" if asked.start is None else asked.start)
    return end


@contextlib.contextmanager
def _target(asked: _Asked, format: str) -> Iterator[IO[bytes]]:
    if asked.target == "-":
        if sys.stdout is None:
            raise click.ClickException("standard output is closed: there is nowhere to write to")
        yield sys.stdout.buffer
        sys.stdout.flush()
    else:
        with NewFile(asked.target, overwrite=asked.overwrite) as new:
            yield new.file


def _write(tailer: Tailer, end: int, sink: Sink, headway: Headway) -> tuple[int, int]:
    """How many records were written, and how many damaged places were passed."""
    began = tailer.position
    records = told = 0
    while tailer.position < end and len(batch := tailer.read_batch()):
        told = say_damage(tailer, told)
        count = int(np.searchsorted(batch.positions, end))
        if count:
            sink.write(batch, count)
        records += count
        headway.show(min(tailer.position, end) - began, records)
        if count < len(batch):
            break
    return records, say_damage(tailer, told)
