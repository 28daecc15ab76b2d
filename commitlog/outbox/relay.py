"""Relay: move the rows of an outbox into a log, each exactly once."""

from __future__ import annotations

import logging
import math
import os
import secrets
import threading
import time
import uuid
from collections.abc import Iterable
from typing import Any, Self

import sqlalchemy as sa

from commitlog import CommitLog
from commitlog.base.extras import imported
from commitlog.base.failpoint import failpoint
from commitlog.base.polling import attempts
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    DiskFullError,
    ForkedError,
    InUseError,
    InvalidOptionError,
    LogNotFoundError,
    MessageError,
    MessageValueError,
    OutboxError,
    PoolExhaustedError,
    PositionError,
    ProducerSequenceError,
    RecordTooLargeError,
    RecordTypeError,
    SyncTimeoutError,
    TailerLagError,
)
from commitlog.extension import view_of
from commitlog.outbox.database import Database, connect
from commitlog.outbox.progress import BATCH_ROWS, GAP_MOST, Progress, checksum_of
from commitlog.outbox.row import unpacked_headers
from commitlog.outbox.tables import OutboxTables
from commitlog.stats import FlowStats
from commitlog.topics import Topic

_logger = logging.getLogger("commitlog.outbox")
_LOCK_POLL_S = 0.1
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 30.0
# What passes: the log has no room now, the database cannot be reached, or a standby took over.
_PASSING = (
    *(DiskFullError, PoolExhaustedError, SyncTimeoutError, TailerLagError, InUseError),
    *(sa.exc.OperationalError, sa.exc.InterfaceError),
)
# Rows that the log will never take.
_REFUSED = (MessageError, MessageValueError, RecordTooLargeError, RecordTypeError)


class Relay:
    """The one relay of an outbox: see `Outbox.relay`. One thread at a time uses it.

    Attributes
    ----------
    moved : int
        Rows that this object has moved.
    refused : int
        Rows that it has set aside, because the log cannot take them.
    """

    def __init__(
        self,
        tables: OutboxTables,
        engine: sa.Engine,
        log: CommitLog,
        *,
        topics: Iterable[Topic[Any]],
        poll: Duration | None,
        wait: Duration | None,
        restored: bool,
    ) -> None:
        if log.options.on_lag == "drop":
            raise InvalidOptionError(
                "a relay cannot use a log that drops records: open it with another on_lag=",
                path=log.path,
            )
        self._tables, self._engine, self._log = tables, engine, log
        self._topics = {topic.name: topic for topic in topics}
        self._poll_s = None if poll is None else parse_duration(poll, "poll")
        self._wait_s = math.inf if wait is None else parse_duration(wait, "wait")
        self._restored = restored
        self._uuid = str(uuid.UUID(bytes=log.identity.uuid))
        self._largest = view_of(log).largest_value()
        self._place = f"outbox {tables.name} to {log.path}"
        self._pid = os.getpid()
        self._ending = threading.Event()
        self.moved = self.refused = 0
        self._database: Database | None = None
        self._progress: Progress
        self._rows: list[Any] = []
        self._gap = 0
        self._known = -1
        self._error: str | None = None
        self._flow = f"outbox {tables.name}"
        self._open()
        view_of(log).flows[self._flow] = self._figures

    # --- moving -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Move rows as they come, until `stop`.

        If the database cannot be reached, the log has no room, or another relay took over, this one
        warns and tries again, after up to 30 seconds. Other errors are raised.
        """
        retry_s = _RETRY_FIRST_S
        while not self._ending.is_set():
            try:
                if not self.run_once() and self._database is not None:
                    poll_s = self._poll_s or self._database.poll_s
                    self._database.wait(poll_s, self._ending)
                retry_s = _RETRY_FIRST_S
                self._error = None
            except _PASSING as error:
                self._error = str(error)
                _logger.warning("%s: the relay waits %g s: %s", self._place, retry_s, error)
                self._ending.wait(retry_s)
                retry_s = min(2 * retry_s, _RETRY_MOST_S)

    def run_once(self) -> int:
        """Move at most 64 rows and about 4 MiB; return how many rows were moved or set aside.

        Raises
        ------
        OutboxError
            The database and the log do not fit together. The rows stay in the outbox.
        CommitLogError, sqlalchemy.exc.SQLAlchemyError
            The log or the database failed. The next call continues with the same rows.
        """
        if os.getpid() != self._pid:
            raise ForkedError("this relay is of the parent process: open one in the child")
        try:
            if self._database is None:
                self._open()
            if not self._progress.batch:
                self._advance(self._progress)
            try:
                return self._move() if self._progress.batch else 0
            except OutboxError as error:
                self._begin_anew(error)
                return self.run_once()
        except (sa.exc.SQLAlchemyError, InUseError):
            self._disconnect()  # the next call reads from the database how far the relay came
            raise

    def _move(self) -> int:
        """Append the rows of the batch, durably, up to one that the log cannot take. Then take the
        next batch.
        """
        moved, position, why = 0, -1, None
        for row in self._rows:
            try:
                if row is not None:
                    position = self._append(row, self._progress.number + moved)
            except _REFUSED as error:
                if self._progress.number + moved <= self._known:
                    raise self._misfit(f"the log has a row that it cannot take: {error}") from error
                why = str(error)
                if isinstance(error, RecordTooLargeError) and row.size > self._largest:
                    why = f"{row.size} bytes: a record of this log has at most {self._largest}"
                break
            moved += 1
            failpoint("outbox row appended")
        if position >= 0:
            self._log.flush()
            if view_of(self._log).is_removed:
                raise LogNotFoundError(
                    "the log was removed while rows were moved into it, and these rows stay in the "
                    "outbox: restore the log, or open another one",
                    path=self._log.path,
                )
            failpoint("outbox batch flushed")
        last = None if position < 0 else self._log.read(position)
        self._advance(self._progress.after(moved, int(why is not None), last), moved, why)
        self.moved += moved
        self.refused += why is not None
        return moved + (why is not None)

    def _append(self, row: Any, number: int) -> int:
        """Append a row under its number, and check that a repeat has the same record."""
        given: dict[str, Any] = {"key": row.key, "headers": unpacked_headers(row.headers)}
        given |= {"producer": self._progress.producer, "producer_sequence": number, "sync": False}
        topic, message = self._message_of(row)
        end = self._log.tail_position
        try:
            if topic is None:
                position = self._log.append(row.value, type=row.type, **given)
            else:
                position = topic.append(message, **given)
        except ProducerSequenceError as error:
            raise self._misfit(f"the log has later rows: {error.message}") from error
        except InvalidOptionError as error:
            if not row.headers:
                raise
            raise MessageValueError(error.message) from error  # of the name of a header
        if position < end and not self._is_same(position, row, topic, message):
            raise self._misfit(f"another row has number {number} in the log, at {position}")
        return position

    def _message_of(self, row: Any) -> tuple[Topic[Any] | None, Any]:
        """Return the topic of a row and its message."""
        if row.topic is None:
            return None, None
        topic = self._topics.get(row.topic)
        if topic is None:
            raise MessageError(f"the relay was not given the topic {row.topic!r}")
        json: Any = imported("msgspec", "a row with a topic", "topics").json
        try:
            return topic, json.decode(row.value, type=topic.message_class)
        except (ValueError, RecursionError) as error:
            raise MessageValueError(f"not a message of topic {row.topic!r}: {error}") from error

    def _is_same(self, position: int, row: Any, topic: Topic[Any] | None, message: Any) -> bool:
        """Return whether the record at a position is that of a row, or is deleted."""
        try:
            if topic is not None:
                with topic.tailer(start=position) as tailer:
                    return bool(tailer.read() == message)
            record = self._log.read(position)
        except PositionError:
            return position < self._log.first_position
        expected = (row.value, row.key, row.type, unpacked_headers(row.headers))
        return (record.value, record.key, record.type, record.headers) == expected

    # --- the database -----------------------------------------------------------------------------

    def _advance(self, progress: Progress, moved: int = 0, why: str | None = None) -> None:
        """Remove the first rows of the batch, which were moved, set the next one aside if there is
        a reason, and take the next batch: in one transaction.
        """
        rows, before = self._tables.rows, self._progress
        with self._connected().transaction() as connection:
            if moved:
                connection.execute(sa.delete(rows).where(rows.c.id.in_(before.batch[:moved])))
            if why is not None:
                aside = sa.update(rows).where(rows.c.id == before.batch[moved])
                connection.execute(aside.values(error=why))
            if not progress.batch:
                key, headers = (
                    sa.func.coalesce(sa.func.length(each), 0)
                    for each in (rows.c.key, rows.c.headers)
                )
                size = sa.func.length(rows.c.value) + key + headers
                waiting = sa.select(rows.c.id, size).where(rows.c.error.is_(None))
                found = connection.execute(waiting.order_by(rows.c.id).limit(BATCH_ROWS))
                sizes = [(number, length) for number, length in found]
                progress = progress.taking(sizes, self._gap)
            if progress != before:
                self._write(connection, progress)
            taken = self._read_rows(connection, progress)
            failpoint("outbox batch taken")
        failpoint("outbox transaction committed")
        if why is not None:
            number = before.batch[moved]
            _logger.error("%s: row %d is set aside: %s", self._place, number, why)
        self._progress, self._rows = progress, taken
        if progress.batch:
            self._gap = 0

    def _write(self, connection: sa.Connection, progress: Progress) -> None:
        state, before = self._tables.relay, self._progress.columns()
        known = [state.c[name] == before[name] for name in ("producer", "number", "batch")]
        changed = sa.update(state).where(*known).values(**progress.columns())
        if connection.execute(changed).rowcount != 1:
            raise InUseError(
                f"another relay moved rows of outbox {self._tables.name!r}: end it, and connect to "
                "the database without a pooler that shares sessions"
            )

    def _read_rows(self, connection: sa.Connection, progress: Progress) -> list[Any]:
        """Return the rows of a batch in its order; None for one that is no longer there. A value
        that no record can have is not read whole.
        """
        rows, any_type = self._tables.rows.c, sa.types.NullType()
        asked = sa.select(
            rows.id,
            sa.func.substr(rows.value, 1, self._largest + 1, type_=any_type).label("value"),
            sa.func.length(rows.value).label("size"),
            sa.type_coerce(rows.key, any_type).label("key"),
            *(rows.headers, rows.type, rows.topic, rows.put_ns),
        )
        found = connection.execute(asked.where(rows.id.in_(progress.batch))).all()
        by_id = {row.id: row for row in found}
        return [by_id.get(number) for number in progress.batch]

    # --- the beginning and the end ----------------------------------------------------------------

    def _open(self) -> None:
        """Connect, become the relay, and check that the log has what was moved last."""
        self._database = connect(self._engine, self._tables)
        try:
            for _ in attempts(self._wait_s, f"another {self._place}", interval_s=_LOCK_POLL_S):
                if self._database.lock():
                    break
            else:
                raise InUseError(f"there is another relay of {self._place}: end it first")
            self._read_progress()
            try:
                self._check()
            except OutboxError as error:
                self._begin_anew(error)
        except BaseException:
            self._disconnect()
            raise

    def _read_progress(self) -> None:
        state = self._tables.relay
        with self._connected().transaction() as connection:
            row = connection.execute(sa.select(state)).one_or_none()
            if row is None:
                self._progress = Progress.new(self._uuid)
                connection.execute(sa.insert(state), {"id": 1} | self._progress.columns())
            else:
                self._progress = Progress.of(row)
            self._rows = self._read_rows(connection, self._progress)
        self._gap = 1 + secrets.randbelow(GAP_MOST)

    def _check(self) -> None:
        known = self._progress
        if known.log != self._uuid:
            raise self._misfit(f"the rows go into log {known.log}, and this is {self._uuid}")
        # From now on, only this handle appends under the name.
        number = view_of(self._log).last_producer_sequence(known.producer)
        if not known.fits(number):
            raise self._misfit(f"the log has later rows, up to number {number}")
        self._known = -1 if number is None else number
        if known.position < self._log.first_position:
            return  # nothing was moved yet, or retention has deleted it
        try:
            found = checksum_of(self._log.read(known.position))
        except PositionError:
            found = None
        if found != known.checksum:
            raise self._misfit(f"the log does not have the row moved last, at {known.position}")

    def _misfit(self, why: str) -> OutboxError:
        return OutboxError(
            f"outbox {self._tables.name!r} and the log do not fit together: {why}. One of them was "
            "restored, copied or replaced: use the right one, or begin anew with restored=True",
            path=self._log.path,
        )

    def _begin_anew(self, error: OutboxError) -> None:
        """Move all rows of the table under a new name, if the user wants this."""
        if not self._restored:
            raise error
        _logger.warning("%s: all rows are moved, although %s", self._place, error.message)
        progress = Progress.new(self._uuid)
        with self._connected().transaction() as connection:
            self._write(connection, progress)
        self._progress, self._rows, self._known = progress, [], -1

    def _connected(self) -> Database:
        assert self._database is not None
        return self._database

    def _figures(self) -> FlowStats:
        """Return the figures of the batch: the rows behind it are not counted."""
        rows = [row for row in self._rows if row is not None]
        put_ns = min((row.put_ns for row in rows if row.put_ns is not None), default=None)
        lag_ms = None if put_ns is None else max(0, time.time_ns() - put_ns) / 1e6
        return FlowStats(
            name=self._flow,
            lag_records=len(rows),
            lag_ms=lag_ms if rows else 0.0,
            error=self._error,
        )

    def close(self) -> None:
        """End the relay: another one may begin. The log stays open. In the child of a fork, this
        does nothing.
        """
        self._disconnect()
        if os.getpid() == self._pid and not self._log.closed:
            view_of(self._log).flows.pop(self._flow, None)

    def _disconnect(self) -> None:
        if self._database is not None and os.getpid() == self._pid:
            self._database.close()
            self._database = None

    def stop(self) -> None:
        """Let `run` return soon; any thread and a signal handler may call this."""
        self._ending.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
