"""`commitlog outbox`: move the rows of an outbox into a log."""

from __future__ import annotations

import click

import commitlog
from commitlog.base.extras import imported
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.output import echo


@click.command()
@click.argument("url")
@click.argument("log", type=click.Path())
@click.option(
    "--table",
    metavar="NAME",
    default="commitlog_outbox",
    show_default=True,
    help="Move the rows of this table.",
)
@click.option("--schema", metavar="NAME", help="Find the table in this schema of PostgreSQL.")
@click.option("--standby", is_flag=True, help="If another relay runs, wait until it ends.")
@click.option("--once", is_flag=True, help="End when no row is left.")
@click.option(
    "--restored",
    is_flag=True,
    help="If the database or LOG was restored, copied or replaced, begin anew: rows may then be in "
    "LOG twice.",
)
def command(
    *, url: str, log: str, table: str, schema: str | None, standby: bool, once: bool, restored: bool
) -> None:
    """Move the rows of an outbox into LOG.

    The database is at URL, in the form of SQLAlchemy. It runs until Ctrl-C, and an outbox has one
    relay at a time. LOG is created if it does not exist. SIGTERM ends it with status 0.

    \b
    Examples:
      commitlog outbox sqlite:///shop.db orders
      commitlog outbox --table shop_outbox postgresql+psycopg://shop@db/shop orders
    """
    sqlalchemy = imported("sqlalchemy", "this command", "outbox")
    from commitlog.outbox import Outbox

    try:
        engine = sqlalchemy.create_engine(url)
    except (sqlalchemy.exc.ArgumentError, ImportError) as error:
        raise click.UsageError(f"the database cannot be used: {error}") from error
    wait = None if standby else 0
    try:
        with (
            Ending(serves=True),
            commitlog.open(log) as opened,
            Outbox(table, schema=schema).relay(
                engine, opened, wait=wait, restored=restored
            ) as relay,
        ):
            echo(f"moving {table} to {log}")
            try:
                while once and relay.run_once():
                    pass
                if not once:
                    relay.run()
            finally:
                echo(f"{relay.moved} rows moved, {relay.refused} set aside")
    except sqlalchemy.exc.DBAPIError as error:
        raise click.ClickException(f"the database failed: {error.orig}") from error
