"""The two tables of an outbox: the rows that programs put, and the state of the relay."""

from __future__ import annotations

import re

import sqlalchemy as sa

from commitlog.errors import InvalidOptionError

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_FUNCTION = """CREATE OR REPLACE FUNCTION {prefix}{name}_notify() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('{name}', ''); RETURN NULL; END $$"""
_TRIGGER = """CREATE TRIGGER {name}_notify AFTER INSERT ON {prefix}{name}
FOR EACH STATEMENT EXECUTE FUNCTION {prefix}{name}_notify()"""


class OutboxTables:
    """The tables, declared.

    Attributes
    ----------
    rows : sqlalchemy.Table
        What programs put. PostgreSQL gives an id before the transaction commits, so a row can
        become visible after one with a larger id. Nothing may remember the last id.
    relay : sqlalchemy.Table
        One row: see `Progress`.
    """

    def __init__(self, name: object, metadata: sa.MetaData, schema: str | None) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOptionError(
                "the name of an outbox must be 1 to 48 lower-case ASCII letters, digits and _, and "
                f"must not begin with a digit: {name!r} is invalid"
            )
        self.name = name
        number = sa.BigInteger()
        self.rows = sa.Table(
            name,
            metadata,
            sa.Column("id", number.with_variant(sa.Integer(), "sqlite"), primary_key=True),
            sa.Column("value", sa.LargeBinary, nullable=False),
            sa.Column("key", sa.LargeBinary),
            sa.Column("headers", sa.Text),
            sa.Column("type", number, nullable=False, server_default="0"),
            sa.Column("topic", sa.Text),
            sa.Column("put_ns", number),
            sa.Column("error", sa.Text),
            schema=schema,
            sqlite_autoincrement=True,
        )
        self.relay = sa.Table(
            f"{name}_relay",
            metadata,
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("producer", sa.Text, nullable=False),
            sa.Column("log", sa.Text, nullable=False),
            sa.Column("number", number, nullable=False),
            sa.Column("batch", sa.Text, nullable=False),
            sa.Column("position", number, nullable=False),
            sa.Column("checksum", number, nullable=False),
            sa.Column("last", number, nullable=False),
            schema=schema,
        )
        for statement in notify_sql(name, schema):
            ddl = sa.DDL(statement)  # type: ignore[no-untyped-call]
            sa.event.listen(self.rows, "after_create", ddl.execute_if(dialect="postgresql"))


def notify_sql(name: str, schema: str | None = None) -> list[str]:
    """Return what makes PostgreSQL notify the relay when a transaction with new rows commits."""
    prefix = "" if schema is None else f'"{schema}".'
    return [statement.format(name=name, prefix=prefix) for statement in (_FUNCTION, _TRIGGER)]
