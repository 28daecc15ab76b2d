"""`commitlog cat`: the values of a log, as they are."""

from __future__ import annotations

import struct
from typing import cast

import click
import numpy as np

import commitlog
from commitlog.cli import FAILURE, parameters
from commitlog.cli.output import Output
from commitlog.cli.reading import present_end, reading_options, say_damage
from commitlog.errors import CommitLogError
from commitlog.tail.batch import Batch
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer

_LENGTH = struct.Struct("<I")
_BATCH = 65536
_BATCH_LIMIT = 1 << 62


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--from", "start", type=parameters.start("first"), default="first", show_default=True, metavar="POSITION|first", help="Begin here."
)
@click.option("--to", type=parameters.position, metavar="POSITION", help="End before this position; before the present end by default.")
@click.option("-n", "--count", type=parameters.whole(0), default=None, metavar="COUNT", help="At most so many records.")
@click.option("-0", "--null", is_flag=True, help="A NUL byte after each value, in place of a newline.")
@click.option("--no-newline", is_flag=True, help="Nothing after each value.")
@click.option("--frames", is_flag=True, help="The length before each value, 4 bytes little-endian, as `append --frames` reads it.")
@reading_options
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    start: int | str,
    to: int | None,
    count: int | None,
    null: bool,
    no_newline: bool,
    frames: bool,
    visibility: str,
    on_damage: str,
) -> None:
    """Print the values of LOG's records as they are, a newline after each.

    \b
    Examples:
      commitlog cat orders
      commitlog cat --from 4096 -n 10 orders
      commitlog cat --frames orders | commitlog append --frames copy
    """
    if null + no_newline + frames > 1:
        raise click.UsageError("--null, --no-newline and --frames exclude one another: use one of them")
    if to is not None and isinstance(start, int) and to < start:
        raise click.UsageError(f"--to ({to}) is below --from ({start}): nothing lies between")
    output = Output()
    ending = b"\0" if null else b"" if no_newline else b"\n"
    with commitlog.open(log, "r") as opened:
        tailer = opened.tailer(start=cast(Start, start), visibility=cast(Visibility, visibility), on_damage=cast(OnDamage, on_damage))
        end = present_end(opened) if to is None else to
        try:
            told = _print(tailer, end, _BATCH_LIMIT if count is None else count, output, None if frames else ending)
        except CommitLogError:
            output.flush()  # what came before the damage, before the word about it
            raise
        output.flush()
    context.exit(FAILURE if told else 0)


def _print(tailer: Tailer, end: int, left: int, output: Output, ending: bytes | None) -> int:
    """Print at most `left` values below `end`; how many damaged places were passed."""
    told = 0
    while left > 0:
        batch = tailer.read_batch(max_records=min(left, _BATCH))
        values = batch.values()[: _below(batch, end)]
        if values:
            output.write(_joined(values, ending))
        told = say_damage(tailer, told)
        left -= len(values)
        if len(values) < len(batch) or not batch or tailer.position >= end:
            break
    return told


def _below(batch: Batch, end: int) -> int:
    """How many of a batch's records start below a position."""
    return int(np.searchsorted(batch.positions, end))


def _joined(values: list[bytes], ending: bytes | None) -> bytes:
    if ending is None:
        return b"".join([part for value in values for part in (_LENGTH.pack(len(value)), value)])
    return ending.join(values) + ending
