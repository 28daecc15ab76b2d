"""`commitlog promote`: make a copy the primary."""

from __future__ import annotations

import click

from commitlog.replication import promote


@click.command()
@click.argument("log", type=click.Path())
def command(*, log: str) -> None:
    """Make LOG, a copy of another log, the primary.

    Its next epoch begins, and programs can append to it. Stop its follower and the old primary
    first. Records that the old primary has not sent are not in LOG. Followers of LOG refuse the old
    primary.

    \b
    Example:
      commitlog promote copy
    """
    epoch = promote(log)
    click.echo(f"{log}: epoch {epoch.number}, goes on at position {epoch.start}")
