"""Outbox: what programs call to put records into the table, and to open the relay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from commitlog import CommitLog
from commitlog.outbox.relay import Relay
from commitlog.outbox.row import row_of
from commitlog.outbox.tables import OutboxTables
from commitlog.topics import Topic
from commitlog.types import Duration


@dataclass(frozen=True)
class OutboxStats:
    """What an outbox has.

    Attributes
    ----------
    waiting : int
        Rows that the relay has not moved yet.
    dead : int
        Rows that the log cannot take: see their column `error`.
    lag_s : float or None
        The age of the oldest waiting row, in seconds; None if no row waits.
    """

    waiting: int
    dead: int
    lag_s: float | None


class Outbox:
    """A table for records that a relay moves into a log.

    The object has no connection. Programs and relays make it anew with the same name.

    Parameters
    ----------
    name : str
        The name of the table: at most 48 lower-case ASCII letters, digits and underscores. A second
        table, ``<name>_relay``, has one row with the state of the relay.
    metadata : sqlalchemy.MetaData, optional
        Where the tables are declared, for `create_all` and for migrations.
    schema : str, optional
        The schema of the tables in the database.
    """

    def __init__(
        self, name: str, metadata: sa.MetaData | None = None, *, schema: str | None = None
    ) -> None:
        self._tables = OutboxTables(name, sa.MetaData() if metadata is None else metadata, schema)

    @property
    def table(self) -> sa.Table:
        """The table that programs write, for statements of their own."""
        return self._tables.rows

    def create(self, engine: sa.Engine) -> None:
        """Create the tables that are missing; on PostgreSQL also a trigger that wakes the relay."""
        tables = [self._tables.rows, self._tables.relay]
        self.table.metadata.create_all(engine, tables=tables)

    def put(
        self,
        connection: sa.Connection | Session,
        value: bytes,
        *,
        key: bytes | None = None,
        type: int = 0,
        headers: Mapping[str, bytes] | None = None,
        topic: str | None = None,
    ) -> None:
        """Put a record into the outbox, in the transaction of a connection or a session.

        If the transaction commits, the relay appends the record to the log, once. With an async
        connection: ``await connection.run_sync(outbox.put, value)``.

        Parameters
        ----------
        connection : sqlalchemy.Connection or sqlalchemy.orm.Session
            What the program changes its data with. In autocommit mode there is no transaction, so
            the record stays if a later statement fails.
        value, key, type, headers
            As for `CommitLog.append`.
        topic : str, optional
            The name of a topic that the relay was given. Then `value` is a message of it as JSON.

        Raises
        ------
        RecordTypeError
            A value, key or header is not bytes, or the type is no number of 32 bits.
        """
        connection.execute(self.table.insert(), row_of(value, key, type, headers, topic))

    def stats(self, connection: sa.Connection | Session) -> OutboxStats:
        """Count the rows that wait and those that the log cannot take."""
        is_dead = self.table.c.error.is_not(None)
        counted = sa.select(is_dead, sa.func.count(), sa.func.min(self.table.c.put_ns))
        rows = connection.execute(counted.group_by(is_dead)).all()
        found = {bool(dead): (count, oldest_ns) for dead, count, oldest_ns in rows}
        waiting, oldest_ns = found.get(False, (0, None))
        lag_s = None if oldest_ns is None else max(0.0, (time.time_ns() - oldest_ns) / 1e9)
        return OutboxStats(waiting, found.get(True, (0, None))[0], lag_s)

    def relay(
        self,
        engine: sa.Engine,
        log: CommitLog,
        *,
        topics: Iterable[Topic[Any]] = (),
        poll: Duration | None = None,
        wait: Duration | None = "5s",
        restored: bool = False,
    ) -> Relay:
        """Open the relay that moves the rows into a log. An outbox has one relay at a time.

        Parameters
        ----------
        engine : sqlalchemy.Engine
            The database. The relay takes one connection of it and keeps it.
        log : CommitLog
            A log that is open for appending. The caller closes it, after the relay.
        topics : iterable of Topic
            Topics of that log, for rows with a topic.
        poll : duration, optional
            How often to look for rows if no notification comes; by default a second on PostgreSQL
            and 20 ms on SQLite, where a poll reads one number.
        wait : duration or None
            How long to wait for another relay to end; None: without a limit, as a standby.
        restored : bool
            If the database and the log do not fit together, because one of them was restored,
            copied or replaced, begin anew: move all rows that the table has. Rows may then be in
            the log twice.

        Raises
        ------
        InUseError
            Another relay has the outbox.
        OutboxError
            The database and the log do not fit together.
        InvalidOptionError
            The database is neither PostgreSQL nor a file of SQLite, or the log drops records.
        """
        return Relay(
            self._tables, engine, log, topics=topics, poll=poll, wait=wait, restored=restored
        )
