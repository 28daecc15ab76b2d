"""`commitlog top`: show live figures of a log, its writers and its tailers."""

from __future__ import annotations

import os
import sys
import time

import click

from commitlog.errors import NotALogError
from commitlog.tools.cli import parameters
from commitlog.tools.cli.output import print_json
from commitlog.tools.cli.progress import is_terminal
from commitlog.tools.cli.rates import Rates, as_object
from commitlog.tools.observe.queue_watch import QueueWatch
from commitlog.tools.observe.watching import LogWatch

_KINDS = {
    "archive": "an archive",
    "segment": "a segment file",
    "remote": "a log on another machine",
}


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--interval",
    type=parameters.interval,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Update the figures at this interval.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the figures of one interval as a JSON object."
)
@click.pass_context
def command(context: click.Context, *, log: str, interval: float, as_json: bool) -> None:
    """Show live figures of LOG on a terminal.

    It shows append and flush rates, latency, watermarks, writers, named tailers with their lag, and
    work queues. It opens LOG for reading only. q or Ctrl-C ends it; ? shows help.

    \b
    Examples:
      commitlog top orders
      commitlog top --interval 5s orders
      commitlog top --json orders
    """
    with LogWatch(log) as watch:
        before = watch.look()
        if before.kind != "log":
            raise NotALogError(
                f"top needs a log, and this is {_KINDS[before.kind]}: use commitlog info",
                path=log,
            )
        if as_json:
            with QueueWatch(watch.path) as queues:
                queues.look()
                time.sleep(interval)
                now = watch.look()
                listed = [each.as_object() for each in queues.look()]
            print_json({**as_object(now, Rates.between(before, now)), "queues": listed})
            return
        if (
            not (is_terminal(sys.stdin) and is_terminal(sys.stdout))
            or os.environ.get("TERM", "dumb") == "dumb"
        ):
            raise click.UsageError(
                "top needs a terminal: use --json to print the figures of one interval"
            )
        try:
            from commitlog.tools.cli.dashboard import Dashboard
        except ImportError:
            raise click.UsageError(
                "top needs textual: pip install 'commitlog-engine[cli]', or use --json"
            ) from None
        dashboard = Dashboard(watch, interval)
        status = dashboard.run()
        if dashboard.failure is not None:
            raise dashboard.failure
    context.exit(status or 0)
