"""`commitlog tail`: the last records of a log, and those that come."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import click
import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.cli import FAILURE, parameters
from commitlog.cli.output import Output
from commitlog.cli.printed import Form, JsonForm, TextForm
from commitlog.cli.reading import present_end, reading_options, say_damage
from commitlog.errors import CommitLogError, LogNotFoundError
from commitlog.log import CommitLog
from commitlog.options import DURATION_LARGEST_S
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.tailer import Idle, OnDamage, Tailer

LAST_DEFAULT = 10
# How often a follower that waits looks up from the log: for a reader that is gone, a log that was removed.
_LOOK_UP_S = 0.2


@dataclass(frozen=True)
class _Manner:
    """How records are read and printed."""

    form: Form
    visibility: Visibility
    on_damage: OnDamage
    idle: Idle


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "-n", "--last", type=parameters.whole(0), default=None, metavar="N", help=f"The last N records; {LAST_DEFAULT} if nothing is said."
)
@click.option("--from", "start", type=parameters.start, default=None, metavar="POSITION|first", help="Begin here, in place of -n.")
@click.option("-f", "--follow", is_flag=True, help="Go on with the records as they come, until Ctrl-C.")
@click.option(
    "--idle",
    type=click.Choice(["spin", "yield", "backoff", "block"]),
    default=None,
    help="With --follow, how to wait: from the least delay to the least work. backoff if nothing is said.",
)
@click.option("--wait", is_flag=True, help="With --follow, wait for LOG to be created where there is none yet.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@reading_options
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    last: int | None,
    start: int | str | None,
    follow: bool,
    idle: str | None,
    wait: bool,
    as_json: bool,
    visibility: str,
    on_damage: str,
) -> None:
    """Print the last records of LOG: position, timestamp, type, key, value, with tabs in between.

    What a terminal would act on is escaped: \\n, \\x1b, \\u202e. A key stands in quotes, and - is none. With --json, bytes that are not
    UTF-8 are base64, and "value_encoding" or "key_encoding" says so.

    \b
    Examples:
      commitlog tail orders
      commitlog tail -n 100 --json orders
      commitlog tail -f --from first orders
      commitlog tail -f --wait orders
    """
    if last is not None and start is not None:
        raise click.UsageError("-n and --from both say where to begin: use one of them")
    if idle is not None and not follow:
        raise click.UsageError("--idle says how to wait, which only --follow does: add -f, or leave it out")
    if wait and not follow:
        raise click.UsageError("--wait waits for records that are yet to come, which only --follow shows: add -f, or leave it out")
    manner = _Manner(
        JsonForm() if as_json else TextForm(),
        cast(Visibility, visibility),
        cast(OnDamage, on_damage),
        cast(Idle, idle or "backoff"),
    )
    output = Output()
    told = 0
    with _flushed_on_failure(output), commitlog.open(log, "r", wait_for_log=DURATION_LARGEST_S if wait else 0) as opened:
        began = _last_start(opened, LAST_DEFAULT if last is None else last, manner) if start is None else cast(Start, start)
        if follow:
            _follow(opened, began, manner, output)
        else:
            tailer = opened.tailer(start=began, visibility=manner.visibility, on_damage=manner.on_damage)
            told = _print_present(opened, tailer, manner, output)
            output.flush()
    context.exit(FAILURE if told else 0)


@contextlib.contextmanager
def _flushed_on_failure(output: Output) -> Iterator[None]:
    """What came before the damage is printed before the word about it."""
    try:
        yield
    except CommitLogError:
        output.flush()
        raise


def _print_present(log: CommitLog, tailer: Tailer, manner: _Manner, output: Output) -> int:
    end = present_end(log, tailer)
    told = 0
    for record in tailer:
        if record.position >= end:
            break
        if len(tailer.damaged) > told:
            told = say_damage(tailer, told)
        output.write(manner.form.line(record))
    return say_damage(tailer, told)


# --- the last N ------------------------------------------------------------------------------------------------------


def _last_start(log: CommitLog, count: int, manner: _Manner) -> Start:
    """Where the last so many records begin.

    Frames cannot be walked backwards, and so segments are: the last one is read from its start, and where it does not hold enough the one
    before it.
    """
    if count == 0:
        return "end"
    tailer = log.tailer(visibility=manner.visibility, on_damage="skip")
    stop = present_end(log, tailer)
    for number in reversed(log.queue.numbers()):
        base = number * log.segment_size
        if base >= stop:
            continue
        tailer.seek(base)
        found = _last_positions(tailer, stop, count)
        if len(found) == count:
            return int(found[0])
        count -= len(found)
        stop = base
    return "first"


def _last_positions(tailer: Tailer, stop: int, count: int) -> npt.NDArray[np.int64]:
    """The positions of the last `count` records between where the tailer stands and `stop`."""
    kept: deque[npt.NDArray[np.int64]] = deque()
    held = 0
    while True:
        batch = tailer.read_batch()
        positions = batch.positions[batch.positions < stop]
        if len(positions):
            kept.append(positions)
            held += len(positions)
        while kept and held - len(kept[0]) >= count:
            held -= len(kept.popleft())
        if not len(batch) or len(positions) < len(batch) or tailer.position >= stop:
            return np.concatenate(kept)[-count:] if kept else np.empty(0, dtype=np.int64)


# --- following -------------------------------------------------------------------------------------------------------


def _follow(log: CommitLog, start: Start, manner: _Manner, output: Output) -> None:
    """Print records as they come, from one writer after the other, until the reader, the log or the user is gone."""
    tailer = log.tailer(start=start, visibility=manner.visibility, on_damage=manner.on_damage)
    told = 0
    while True:
        for record in tailer:
            output.write(manner.form.line(record))
        told = say_damage(tailer, told)
        output.flush()
        found = tailer.read(timeout=_LOOK_UP_S, idle=manner.idle)
        if found is not None:
            output.write(manner.form.line(found))
            continue
        output.check_reader()
        if os.fstat(log.directory.fd).st_nlink == 0:
            raise LogNotFoundError("the log was removed while it was followed: there is nothing to wait for", path=log.path)
