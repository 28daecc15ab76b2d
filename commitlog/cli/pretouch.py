"""`commitlog pretouch`: segments and pages ahead of the writers of a log, from beside them."""

from __future__ import annotations

import time

import click

import commitlog
from commitlog.cli import parameters
from commitlog.cli.ending import Ending
from commitlog.errors import InvalidOptionError, LogLockedError
from commitlog.log.commit_log import CommitLog
from commitlog.log.parts import parts_of
from commitlog.options import ALLOCATE_AHEAD_MOST, Options, Tuning

_LOOK_S = 60.0


@click.command()
@click.argument("log", type=click.Path())
@click.option("--once", is_flag=True, help="Bring what is missing now, say how far that is, and end.")
@click.option(
    "--segments",
    type=parameters.whole(1, ALLOCATE_AHEAD_MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="Create so many segments ahead.",
)
@click.option(
    "--distance",
    type=parameters.size,
    metavar="SIZE",
    help="Keep so many bytes ahead of the tail in memory; follows the appends if nothing is said.",
)
def command(*, log: str, once: bool, segments: int, distance: int | None) -> None:
    """Create the next segments of LOG and bring their pages into memory, ahead of those who append, until Ctrl-C.

    A writer does so by itself, in a thread of its own. This takes the work from it: from many small writers, from one with few processors
    to run on, or from writers opened with Tuning(allocate_ahead=0) and prefault=False. No record is written or changed. LOG must exist,
    and nobody may have it open with a pool, whose buffers are in memory already.

    \b
    Examples:
      commitlog pretouch orders
      commitlog pretouch --segments 2 --distance 128MiB orders
      commitlog pretouch --once orders
    """
    try:
        options = Options(flush="none", prefault=not once, tuning=Tuning(allocate_ahead=segments, prefault_distance=distance))
    except InvalidOptionError as error:
        raise click.UsageError(f"--distance {error.message.partition(' ')[2]}") from None
    with Ending() as ending:
        with commitlog.open(log, "r"):
            pass  # opening to write would make a log where there is none
        with _opened(log, options) as opened:
            click.echo(_told(opened, opened.pretouch()))
            while not once:
                # All is done by the handle's own service, until a signal ends this.
                time.sleep(_LOOK_S)
                ending.look()


def _opened(log: str, options: Options) -> CommitLog:
    try:
        return commitlog.open(log, options=options)
    except LogLockedError as error:
        raise LogLockedError(
            f"the log is pooled: its buffers are in memory already, and there is nothing to pretouch ({error.holder} writes it)",
            path=error.path,
            holder=error.holder,
        ) from error


def _told(log: CommitLog, touched: int) -> str:
    segments = parts_of(log).queue.numbers()
    end = (segments[-1] + 1) * log.segment_size
    return f"{log.path}: tail {log.tail_position}, pages up to {touched}, segments up to {end}"
