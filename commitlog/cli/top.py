"""`commitlog top`: what a log and all that have it open do at the moment."""

from __future__ import annotations

import json
import sys
import time

import click

from commitlog.cli import parameters
from commitlog.cli.ending import Ending
from commitlog.cli.keys import Keys
from commitlog.cli.moving import Rates, as_object
from commitlog.errors import LogNotFoundError
from commitlog.observe.watching import LogFigures, LogWatch

_HINT = "q ends"
_WIDTH = 80


@click.command()
@click.argument("log", metavar="LOG|ARCHIVE|FILE.seg", type=click.Path())
@click.option(
    "--interval",
    type=parameters.interval,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Look so often.",
)
@click.option(
    "--once", is_flag=True, help="Print it once, after one interval, for which the rates are."
)
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def command(*, log: str, interval: float, once: bool, as_json: bool) -> None:
    """Show live figures of LOG.

    Watermarks, rates, segments, room, claims that were rolled back, writers, named tailers and how
    far they lag.

    It looks from outside, opens the log for reading, and changes nothing. On a terminal it goes on
    until q or Ctrl-C, or until the log is removed; elsewhere it prints once. --json is of one look,
    too.

    Of an archive, or a single segment's file, there is less to show: what it holds, and how large
    it is.

    \b
    Examples:
      commitlog top orders
      commitlog top --interval 5s orders
      commitlog top --once orders
      commitlog top --json orders
    """
    with Ending(), LogWatch(log) as watch:
        before = watch.look()
        if as_json:
            time.sleep(interval)
            now = watch.look()
            click.echo(json.dumps(as_object(now, Rates.between(before, now)), indent=2))
        else:
            _show(watch, before, interval, once)


def _show(watch: LogWatch, before: LogFigures, interval: float, once: bool) -> None:
    try:
        from rich.console import Console
        from rich.live import Live

        from commitlog.cli.panel import panel
    except ImportError:
        raise click.UsageError(
            "top needs rich: pip install 'commitlog-engine[cli]'; --json does without"
        ) from None
    console = Console(file=sys.stdout, highlight=False)
    if console.width < 1:
        console.width = _WIDTH  # a terminal that does not know how wide it is
    if once or not console.is_terminal or console.is_dumb_terminal:
        time.sleep(interval)
        now = watch.look()
        console.print(panel(now, Rates.between(before, now)))
        return
    first = panel(before, Rates.between(None, before), hint=_HINT)
    with Keys() as keys, Live(first, console=console, screen=True, auto_refresh=False) as live:
        while not keys.pressed("q", interval):
            try:
                now = watch.look()
            except LogNotFoundError as error:
                raise LogNotFoundError(
                    "the log was removed while it was shown", path=error.path
                ) from None
            live.update(panel(now, Rates.between(before, now), hint=_HINT), refresh=True)
            before = now
