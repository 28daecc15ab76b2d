"""`commitlog promote`: make a copy the primary."""

from __future__ import annotations

from typing import get_args

import click

from commitlog import Store
from commitlog.extension import Epochs, Lineage
from commitlog.network.replication.primary import Access
from commitlog.network.replication.promotion import promote
from commitlog.network.replication.promotion_steps import Doubt
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.parameters import connection_options


@click.command(cls=UnsuggestedCommand)
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
    "--copies",
    metavar="COUNT",
    type=int,
    help="Assume that the log has this many copies, LOG among them, because others are gone for "
    "good.  [default: as many as it counts]",
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
    help="Promote even if too few copies promise, if another copy has more records, if the store "
    "has more, or if LOG was restored from a backup or cloned. Acknowledged records may be lost. "
    "Can be given several times.",
)
@click.option(
    "--primary",
    is_flag=True,
    help="Begin the next epoch of a LOG that is no copy of another one.",
)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    *,
    log: str,
    others: tuple[str, ...],
    require: int | None,
    copies: int | None,
    store: str | None,
    force: tuple[Doubt, ...],
    primary: bool,
    token: str | None,
    tls_roots: str | None,
    plain_text: bool,
    as_json: bool,
) -> None:
    """Make LOG, a copy of another log, the primary.

    Its next epoch begins, and programs can append to it. Stop its follower first. Before the epoch
    begins, other copies promise to follow no lower one. With enough promises, the old primary can
    acknowledge nothing more; it does not have to be stopped. What only another copy has is copied
    from it. If too few copies are reachable, LOG is not promoted.

    \b
    Examples:
      commitlog promote copy
      commitlog promote --store s3://bucket/orders copy
      commitlog promote --other tls://c:7070/copy --require 1 copy
    """
    Access(token, tls_roots, plain_text)  # refuses a wrong token first
    if not (primary or others or store):
        _refuse_plain(log)
    epoch = promote(
        log,
        others=others,
        require=require,
        copies=copies,
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


def _refuse_plain(log: str) -> None:
    """Refuse a log that is no copy: its next epoch cuts off what copies of it have beyond it."""
    found = Epochs.at(log)
    known = Lineage() if found is None else found[1]
    if found is not None and known.follows is None and known.promised == known.rank:
        raise click.UsageError(
            f"{log} is not a copy of another log. Name its copies with --other, or begin its next "
            "epoch all the same with --primary"
        )
