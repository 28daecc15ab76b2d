"""`commitlog promote`: make a copy the primary."""

from __future__ import annotations

from typing import get_args

import click

from commitlog.cli.output import echo, print_json
from commitlog.cli.parameters import connection_options
from commitlog.replication.promotion import Doubt, promote
from commitlog.retention.store import Store


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--other",
    "others",
    metavar="URL",
    multiple=True,
    help="Ask this copy, too. Name every other copy, reachable or not.",
)
@click.option(
    "--require",
    metavar="COUNT",
    type=int,
    help="Assume that this many copies have each acknowledged record.  [default: as the log was "
    "opened with, else 1]",
)
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Claim the epoch in this store of the log, so that the old primary stops.",
)
@click.option(
    "--force",
    type=click.Choice(get_args(Doubt)),
    multiple=True,
    help="Promote even if too few copies promise, if another copy has more records, or if the "
    "store has more. Acknowledged records may be lost. Can be given several times.",
)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *,
    log: str,
    others: tuple[str, ...],
    require: int | None,
    store: str | None,
    force: tuple[Doubt, ...],
    token: str | None,
    tls_roots: str | None,
    plain_text: bool,
    as_json: bool,
) -> None:
    """Make LOG, a copy of another log, the primary.

    Its next epoch begins, and programs can append to it. Stop its follower first. Before the epoch
    begins, other copies promise to follow no lower one. With enough promises, the old primary can
    acknowledge nothing more. If too few copies are reachable, or one of them has more records than
    LOG, LOG is not promoted.

    \b
    Examples:
      commitlog promote copy
      commitlog promote --store s3://bucket/orders copy
      commitlog promote --other tls://c:7070/copy --require 1 copy
    """
    epoch = promote(
        log,
        others=others,
        require=require,
        force=force,
        store=None if store is None else Store(store),
        token=token,
        tls_roots=tls_roots,
        plain_text=plain_text,
    )
    if as_json:
        print_json({"path": log, "number": epoch.number, "start": epoch.start, "id": epoch.id})
        return
    echo(f"{log}: epoch {epoch.number} begins at position {epoch.start}")
