"""The relay's connection to its database: transactions, the lock of the relay, and wake-ups."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from commitlog.base.life_lock import LifeLock, open_lock_file
from commitlog.errors import InvalidOptionError
from commitlog.outbox.tables import OutboxTables

_LOCK_CLASS = 0x636C_6F67  # "clog": the first half of the advisory lock's key
_POSTGRESQL = (
    "SET statement_timeout = '60s'",
    "SET lock_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # The server ends a session, with its lock, a minute after it lost the client.
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = '60s'",
    # A batch that the database lost would be moved again, under another number.
    "SET synchronous_commit = on",
)
_SQLITE = ("PRAGMA busy_timeout = 20000", "PRAGMA synchronous = FULL")


class PostgreSQL:
    """A session of PostgreSQL, with a lock that the server releases when the session ends."""

    poll_s = 1.0

    def __init__(self, engine: sa.Engine, tables: OutboxTables) -> None:
        self.connection = engine.connect().execution_options(isolation_level="READ COMMITTED")
        self._driver: Any = self.connection.connection.driver_connection
        self.connection.detach()  # closed at the end, because a pool would keep the lock
        self._table = engine.dialect.identifier_preparer.format_table(tables.rows)
        self._dbapi_error = engine.dialect.loaded_dbapi.Error
        for setting in (*_POSTGRESQL, f'LISTEN "{tables.name}"'):
            self.connection.exec_driver_sql(setting)
        self.connection.commit()

    def lock(self) -> bool:
        """Become the relay of the table; return False if another session is."""
        asked = sa.text("SELECT pg_try_advisory_lock(:kind, CAST(:table AS regclass)::oid::int)")
        given = {"kind": _LOCK_CLASS, "table": self._table}
        found = self.connection.execute(asked, given).scalar_one()
        self.connection.commit()
        return bool(found)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with self.connection.begin():
            yield self.connection

    def wait(self, timeout_s: float, ending: threading.Event) -> None:
        """Wait for a notification. If the connection is lost, the next statement reports it."""
        if not hasattr(self._driver, "notifies"):  # another driver than psycopg
            ending.wait(timeout_s)
            return
        with contextlib.suppress(self._dbapi_error):
            for _ in self._driver.notifies(timeout=timeout_s, stop_after=1):
                pass

    def close(self) -> None:
        with contextlib.suppress(sa.exc.DBAPIError):
            self.connection.close()


class SQLite:
    """A connection to a file of SQLite. SQLite has no advisory lock, so the lock is on a file
    beside the database.
    """

    poll_s = 0.02

    def __init__(self, engine: sa.Engine, tables: OutboxTables) -> None:
        # SQLAlchemy begins no transaction then: `transaction` does.
        self.connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        file = self.connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
        if not file:
            raise InvalidOptionError(
                "an outbox in a database in memory has no relay: use a database in a file"
            )
        self.connection.detach()
        for setting in _SQLITE:
            self.connection.exec_driver_sql(setting)
        self.connection.commit()
        self._folder, name = os.path.split(file)
        self._lock_name = f"{name}-{tables.name}-lock"
        self._lock = LifeLock(self._open_lock, None)
        self._seen = -1

    def _open_lock(self) -> int:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_lock_file(self._lock_name, folder)
        finally:
            os.close(folder)

    def lock(self) -> bool:
        """Become the relay of the table; return False if another process is."""
        return self._lock.acquire("exclusive")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with self.connection.begin():
            self.connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.exec_driver_sql("COMMIT")
            except BaseException:
                with contextlib.suppress(sa.exc.DBAPIError):
                    self.connection.exec_driver_sql("ROLLBACK")
                raise

    def wait(self, timeout_s: float, ending: threading.Event) -> None:
        """Wait until another connection has changed the database."""
        while True:
            version = self.connection.exec_driver_sql("PRAGMA data_version").scalar_one()
            self.connection.commit()
            if version != self._seen or ending.wait(timeout_s):
                self._seen = version
                return

    def close(self) -> None:
        with contextlib.suppress(sa.exc.DBAPIError):
            self.connection.close()
        self._lock.close()


Database = PostgreSQL | SQLite


def connect(engine: sa.Engine, tables: OutboxTables) -> Database:
    """Connect to the database of an outbox."""
    if not isinstance(engine, sa.Engine):
        raise InvalidOptionError(
            f"engine must be a sqlalchemy.Engine, not {type(engine).__name__}; of an async engine, "
            "give sync_engine of one with a synchronous driver"
        )
    kinds: dict[str, type[Database]] = {"postgresql": PostgreSQL, "sqlite": SQLite}
    kind = kinds.get(engine.dialect.name)
    if kind is None:
        raise InvalidOptionError(
            f"an outbox is in PostgreSQL or SQLite, not in {engine.dialect.name}: use one of them"
        )
    found = kind(engine, tables)
    try:
        _check_tables(found.connection, tables)
    except BaseException:
        found.close()
        raise
    return found


def _check_tables(connection: sa.Connection, tables: OutboxTables) -> None:
    inspector = sa.inspect(connection)
    for table in (tables.rows, tables.relay):
        if not inspector.has_table(table.name, schema=table.schema):
            raise InvalidOptionError(
                f"the database {connection.engine.url!r} has no table {table.fullname!r}: call "
                "Outbox.create, or migrate"
            )
    connection.commit()
