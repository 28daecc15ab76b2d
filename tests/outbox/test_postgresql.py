"""The relay on PostgreSQL: commits out of order, notifications, the lock, a lost server."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import commitlog
from commitlog import CommitLog
from commitlog.errors import InUseError
from commitlog.outbox import Outbox
from tests.outbox.postgresql import Server

pytestmark = pytest.mark.long
HOUR_S = 3600


@pytest.fixture
def engine(server: Server) -> Iterator[sa.Engine]:
    made = sa.create_engine(server.url)
    yield made
    made.dispose()


def test_row_that_commits_after_a_later_id_is_moved(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with outbox.relay(engine, log) as relay, engine.connect() as slow:
        outbox.put(slow, b"slow")
        with engine.begin() as connection:
            outbox.put(connection, b"fast")
        assert relay.run_once() == 1
        slow.commit()
        assert relay.run_once() == 1
        assert relay.run_once() == 0
    assert [record.value for record in log.tailer()] == [b"fast", b"slow"]


def test_notification_wakes_the_relay_also_after_a_crash(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, server: Server
) -> None:
    with outbox.relay(engine, log, poll=HOUR_S) as relay, log.tailer() as tailer:
        thread = threading.Thread(target=relay.run)
        thread.start()
        for value in (b"one", b"two", b"three"):
            with Session(engine) as session:
                outbox.put(session, value)
                session.commit()
            record = tailer.read(timeout=60)
            assert record is not None
            assert record.value == value
            if value == b"one":
                server.crash()
                engine.dispose()
        relay.stop()
        with engine.begin() as connection:
            outbox.put(connection, b"wakes it up")
        thread.join()


def test_second_relay_of_a_server_is_refused(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    other = Outbox("other_outbox")
    other.create(engine)
    with outbox.relay(engine, log):
        with pytest.raises(InUseError, match="another relay"):
            outbox.relay(engine, log, wait="200ms")
        other.relay(engine, log, wait=0).close()
    outbox.relay(engine, log, wait="10s").close()


def test_end_of_a_forked_child_leaves_the_session(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with outbox.relay(engine, log) as relay:
        child = os.fork()
        if child == 0:
            relay.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with engine.begin() as connection:
            outbox.put(connection, b"a")
        assert relay.run_once() == 1


def test_outbox_in_a_schema_is_moved(engine: sa.Engine, tmp_path: Path) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA shop")
    outbox = Outbox("orders", schema="shop")
    outbox.create(engine)
    with engine.begin() as connection:
        outbox.put(connection, b"x" * 70_000_000)  # more than a record can have
        outbox.put(connection, b"a", key=b"k")
    with commitlog.open(tmp_path / "log") as log, outbox.relay(engine, log) as relay:
        while relay.run_once():
            pass
        assert (relay.moved, relay.refused) == (1, 1)
        assert [record.key for record in log.tailer()] == [b"k"]


def test_async_program_puts_into_the_outbox(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, server: Server
) -> None:
    async def put() -> None:
        asynchronous = create_async_engine(server.url)
        async with asynchronous.begin() as connection:
            await connection.run_sync(outbox.put, b"a", key=b"k")
        await asynchronous.dispose()

    asyncio.run(put())
    with outbox.relay(engine, log) as relay:
        assert relay.run_once() == 1
