"""`commitlog promote`: make a copy the primary."""

from __future__ import annotations

import click

from commitlog.cli.output import print_json
from commitlog.cli.parameters import connection_options
from commitlog.replication import promote
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
    default=1,
    show_default=True,
    help="Assume that this many copies have each acknowledged record.",
)
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Claim the epoch in this store of the log, so that the old primary stops.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Promote even if promises are missing, or copies or the store have more records. "
    "Acknowledged records may be lost.",
)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *,
    log: str,
    others: tuple[str, ...],
    require: int,
    store: str | None,
    force: bool,
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
    click.echo(f"{log}: epoch {epoch.number} begins at position {epoch.start}")
