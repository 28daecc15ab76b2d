"""`commitlog promote`: make a copy the primary."""

from __future__ import annotations

import dataclasses

import click

from commitlog.cli.output import print_json
from commitlog.replication import promote


@click.command()
@click.argument("log", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(*, log: str, as_json: bool) -> None:
    """Make LOG, a copy of another log, the primary.

    Its next epoch begins, and programs can append to it. Stop its follower and the old primary
    first. Records that the old primary has not sent are not in LOG. Followers of LOG refuse the old
    primary.

    \b
    Example:
      commitlog promote copy
    """
    epoch = promote(log)
    if as_json:
        print_json({"path": log, **dataclasses.asdict(epoch)})
        return
    click.echo(f"{log}: epoch {epoch.number}, goes on at position {epoch.start}")
