"""The relay moves each committed row once, into the log that belongs to the outbox."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

import commitlog
from commitlog import CommitLog
from commitlog.errors import (
    DiskFullError,
    ForkedError,
    InUseError,
    InvalidOptionError,
    LogNotFoundError,
    OutboxError,
    RecordTooLargeError,
    RecordTypeError,
)
from commitlog.metrics import LogCollector
from commitlog.outbox import Outbox
from commitlog.outbox.progress import BATCH_ROWS
from commitlog.outbox.relay import Relay
from commitlog.segment.producers_file import NUMBERS_KEPT
from tests.steps import killed_at


class Order(msgspec.Struct):
    id: int


def put(engine: sa.Engine, outbox: Outbox, *values: bytes) -> None:
    with engine.begin() as connection:
        for value in values:
            outbox.put(connection, value, key=b"k")


def values(log: CommitLog) -> list[bytes]:
    return [record.value for record in log.tailer()]


def drain(relay: Relay) -> int:
    total = 0
    while moved := relay.run_once():
        total += moved
    return total


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- moving ---------------------------------------------------------------------------------------


def test_a_batch_is_what_the_log_knows_of_a_producer() -> None:
    assert BATCH_ROWS == NUMBERS_KEPT


def test_committed_rows_are_moved_in_order(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    put(engine, outbox, *numbered(150))
    with engine.connect() as connection:
        outbox.put(connection, b"rolled back")
        connection.rollback()
        assert outbox.stats(connection).waiting == 150
    with outbox.relay(engine, log) as relay:
        assert [relay.run_once() for _ in range(4)] == [64, 64, 22, 0]
        assert (relay.moved, relay.refused) == (150, 0)
    assert values(log) == numbered(150)
    with engine.connect() as connection:
        stats = outbox.stats(connection)
    assert (stats.waiting, stats.dead, stats.lag_s) == (0, 0, None)


def test_headers_of_rows_are_those_of_records(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    headers = {"trace": b"00-ab", "raw": b"\xff\x00\x80", "empty": b""}
    with engine.begin() as connection:
        outbox.put(connection, b"a", headers=headers)
        outbox.put(connection, b'{"id": 1}', headers=headers, topic="order")
        nested = '{"a":' * 100_000
        for wrong in ("nonsense", "[1]", '{"a": 1}', '{"": "x"}', nested):
            connection.execute(outbox.table.insert(), {"value": b"b", "headers": wrong})
        outbox.put(connection, b"c", headers={})
    orders = commitlog.topic(log, Order, name="order")
    with outbox.relay(engine, log, topics=[orders]) as relay:
        drain(relay)
        assert (relay.moved, relay.refused) == (3, 5)
    assert [record.headers for record in log.tailer() if record.value != b"c"].count(headers) == 2


def test_record_has_key_and_type_of_the_row(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with engine.begin() as connection:
        outbox.put(connection, b"a", key=b"", type=7)
        outbox.put(connection, bytearray(b"b"))
        waiting = outbox.stats(connection)
        assert waiting.lag_s is not None
    with outbox.relay(engine, log) as relay:
        drain(relay)
    found = [(record.value, record.key, record.type) for record in log.tailer()]
    assert found == [(b"a", b"", 7), (b"b", None, 0)]


def test_batch_of_large_rows_is_bounded_in_bytes(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    put(engine, outbox, *[b"x" * (3 << 20)] * 3)
    with (
        commitlog.open(tmp_path / "log") as log,
        outbox.relay(engine, log) as relay,
    ):
        assert [relay.run_once() for _ in range(4)] == [1, 1, 1, 0]


def test_row_that_commits_late_is_not_lost(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    put(engine, outbox, b"first")
    with outbox.relay(engine, log) as relay:
        drain(relay)
        with engine.begin() as connection:  # as a transaction whose id was given long before
            late = {"id": -5, "value": b"late"}
            connection.execute(outbox.table.insert(), late)
        drain(relay)
    assert values(log) == [b"first", b"late"]


def test_relay_runs_until_it_is_stopped(engine: sa.Engine, outbox: Outbox, log: CommitLog) -> None:
    with outbox.relay(engine, log) as relay:
        thread = threading.Thread(target=relay.run)
        thread.start()
        with log.tailer() as tailer:
            for value in (b"one", b"two"):
                put(engine, outbox, value)
                assert next(iter(tailer.follow(timeout=60))).value == value
        relay.stop()
        thread.join()
        assert relay.moved == 2


def test_full_disk_holds_the_rows_back(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(engine, outbox, *numbered(3))
    flush = log.flush
    failures = iter([DiskFullError("no room", path=log.path)] * 2)

    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

        def flush(self) -> None:
            for failure in failures:
                raise failure
            flush()
            relay.stop()

    with outbox.relay(engine, log) as relay:
        monkeypatch.setattr(relay, "_log", Full())
        relay.run()
    assert values(log) == numbered(3)


# --- rows that the log cannot take ----------------------------------------------------------------


def test_row_that_is_too_large_is_set_aside(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, caplog: pytest.LogCaptureFixture
) -> None:
    put(engine, outbox, b"a", b"x" * 9000, b"b", b"y" * 9000)
    with outbox.relay(engine, log) as relay:
        assert drain(relay) == 4
        assert (relay.moved, relay.refused) == (2, 2)
    assert values(log) == [b"a", b"b"]
    with engine.begin() as connection:
        assert outbox.stats(connection).dead == 2
        errors = set(connection.execute(sa.select(outbox.table.c.error)).scalars())
        assert errors == {"9000 bytes: a record of this log has at most 8176"}
        connection.execute(sa.update(outbox.table).values(value=b"short", error=None))
    assert "row 2 is set aside: 9000 bytes" in caplog.text
    with outbox.relay(engine, log) as relay:
        drain(relay)
    assert values(log) == [b"a", b"b", b"short", b"short"]


def test_text_written_by_another_program_is_set_aside(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO shop_outbox (value) VALUES ('text'), (x'00')")
    with outbox.relay(engine, log) as relay:
        drain(relay)
        assert (relay.moved, relay.refused) == (1, 1)
    assert values(log) == [b"\0"]


def test_rows_with_a_topic_become_messages(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with engine.begin() as connection:
        for value, topic in (
            (b'{"id": 1}', "order"),
            (b'{"id": "x"}', "order"),
            (b"{}", "unknown"),
            (b'{"id": 1, "x": ' + b"[" * 100_000, "order"),
            (b'{"id": 2}', "order"),
        ):
            outbox.put(connection, value, topic=topic, key=b"k")
    orders = commitlog.topic(log, Order, name="order")
    with outbox.relay(engine, log, topics=[orders]) as relay:
        drain(relay)
        assert (relay.moved, relay.refused) == (2, 3)
    assert list(orders.tailer()) == [Order(1), Order(2)]


def test_put_of_something_else_than_bytes_is_refused(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.connect() as connection:
        for wrong in ({"value": "text"}, {"value": b"", "key": 5}, {"value": b"", "type": -1}):
            with pytest.raises(RecordTypeError):
                outbox.put(connection, **wrong)  # type: ignore[arg-type]
        with pytest.raises(RecordTypeError, match="header 'a'"):
            outbox.put(connection, b"", headers={"a": 5})  # type: ignore[dict-item]
        with pytest.raises(RecordTypeError, match="must be a str, not 1"):
            outbox.put(connection, b"", headers={1: b""})  # type: ignore[dict-item]
        with pytest.raises(RecordTooLargeError, match="at most 64 headers"):
            outbox.put(connection, b"", headers={str(at): b"" for at in range(65)})
        with pytest.raises(RecordTypeError, match="topic must be the name"):
            outbox.put(connection, b"", topic=5)  # type: ignore[arg-type]


# --- kills ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [None, pytest.param("order", marks=pytest.mark.long)])
def test_kill_at_any_step_moves_each_row_once(tmp_path: Path, topic: str | None) -> None:
    outbox = Outbox("shop_outbox")
    expected = [b'{"id":%d}' % number for number in range(3)]
    step = 0
    while True:
        step += 1
        url, path = f"sqlite:///{tmp_path}/{step}.db", tmp_path / f"log{step}"

        def opened(url: str = url, path: Path = path) -> tuple[sa.Engine, CommitLog]:
            return sa.create_engine(url), commitlog.open(path, segment_size="64KiB")

        def prepare(
            opened: Callable[[], tuple[sa.Engine, CommitLog]] = opened,
        ) -> Callable[[], object]:
            engine, log = opened()
            outbox.create(engine)
            with engine.begin() as connection:
                for value in (*expected[:2], b"x" * 9000, expected[2]):
                    outbox.put(connection, value, topic=topic)
            orders = commitlog.topic(log, Order, name="order")
            return lambda: drain(outbox.relay(engine, log, topics=[orders]))

        was_killed = killed_at(step, prepare)
        engine, log = opened()
        orders = commitlog.topic(log, Order, name="order")
        with outbox.relay(engine, log, topics=[orders]) as relay:
            drain(relay)
        engine.dispose()
        found = values(log) if topic is None else [b'{"id":%d}' % it.id for it in orders.tailer()]
        log.close()
        assert found == expected, step
        if not was_killed:
            break
    assert step > 10


# --- one relay ------------------------------------------------------------------------------------


def test_second_relay_is_refused_until_the_first_ends(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with outbox.relay(engine, log), pytest.raises(InUseError, match="another relay of outbox"):
        outbox.relay(engine, log, wait=0)
    outbox.relay(engine, log, wait=0).close()


def test_standby_takes_over_when_the_first_relay_ends(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    first, standby = outbox.relay(engine, log), list[Relay]()
    thread = threading.Thread(target=lambda: standby.append(outbox.relay(engine, log, wait=None)))
    thread.start()
    put(engine, outbox, b"a")
    assert drain(first) == 1
    put(engine, outbox, b"b")
    first.close()
    thread.join()
    with standby[0] as relay:
        assert drain(relay) == 1
    assert values(log) == [b"a", b"b"]


def test_relay_whose_lock_failed_is_noticed(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, tmp_path: Path
) -> None:
    with outbox.relay(engine, log) as first:
        os.unlink(tmp_path / "shop.db-shop_outbox-lock")
        with outbox.relay(engine, log) as second:
            put(engine, outbox, b"a")
            assert drain(second) == 1
            put(engine, outbox, b"b")
            with pytest.raises(InUseError, match="another relay moved rows"):
                first.run_once()
            assert drain(second) == 1
    assert values(log) == [b"a", b"b"]


def test_relay_in_the_child_of_a_fork_is_refused(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    with outbox.relay(engine, log) as relay:
        child = os.fork()
        if child == 0:
            try:
                relay.run_once()
            except ForkedError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        put(engine, outbox, b"a")
        assert drain(relay) == 1


def test_statistics_have_the_lag_of_the_relay(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    put(engine, outbox, *numbered(BATCH_ROWS + 2))
    with outbox.relay(engine, log) as relay:
        (idle,) = log.stats().flows
        assert (idle.name, idle.lag_records, idle.lag_ms) == ("outbox shop_outbox", 0, 0.0)
        relay.run_once()
        stats = log.stats()  # once: the lag grows
        (flow,) = stats.flows
        assert (flow.lag_records, flow.error) == (2, None)
        assert flow.lag_seconds is not None
        assert str(flow) in str(stats)
        registry = CollectorRegistry()
        registry.register(LogCollector(log))
        labels = {"log": log.path, "flow": "outbox shop_outbox"}
        assert registry.get_sample_value("commitlog_flow_lag_records", labels) == 2
        assert registry.get_sample_value("commitlog_flow_lag_bytes", labels) is None
        assert registry.get_sample_value("commitlog_flow_failed", labels) == 0
        drain(relay)
        assert log.stats().flows[0].lag_records == 0
    assert log.stats().flows == ()


# --- databases and logs that do not fit together --------------------------------------------------


def copied(engine: sa.Engine, target: Path) -> sa.Engine:
    """Copy the database, as a backup does."""
    source = sqlite3.connect(str(engine.url.database))
    copy = sqlite3.connect(target)
    source.backup(copy)
    source.close()
    copy.close()
    return sa.create_engine(f"sqlite:///{target}")


def test_restored_database_is_refused_and_loses_no_row(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, tmp_path: Path
) -> None:
    put(engine, outbox, b"a")
    with outbox.relay(engine, log) as relay:
        drain(relay)
    restored = copied(engine, tmp_path / "old.db")
    put(engine, outbox, b"b")
    with outbox.relay(engine, log) as relay:
        drain(relay)
    put(restored, outbox, b"b", b"c")  # the first one is new, although the log has its like
    for _ in range(2):
        with pytest.raises(OutboxError, match="do not fit together: the log has later rows"):
            outbox.relay(restored, log)
    assert values(log) == [b"a", b"b"]
    with outbox.relay(restored, log, restored=True) as relay:
        assert drain(relay) == 2
    assert values(log) == [b"a", b"b", b"b", b"c"]
    restored.dispose()


def test_rows_of_a_copy_with_the_same_bytes_are_no_repeats(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log, outbox.relay(engine, log):
        copy = copied(engine, tmp_path / "copy.db")
    put(engine, outbox, b"a")
    put(copy, outbox, b"a")  # another one, with the same id
    # Both take their row at the same end of the log, and are killed before the append.
    for database in (engine, copy):
        assert killed_after_taking(outbox, database, path) == "1"
    with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
        drain(relay)
        with pytest.raises(OutboxError, match="the log has later rows"):
            outbox.relay(copy, log)
        assert values(log) == [b"a"]
    with copy.connect() as connection:
        assert outbox.stats(connection).waiting == 1
    copy.dispose()


def test_repeat_that_the_log_cannot_take_is_refused(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with engine.begin() as connection:
        outbox.put(connection, b'{"id": 1}', topic="order")
        outbox.put(connection, b"a")
    assert killed_after_taking(outbox, engine, path) == "1 2"
    with commitlog.open(path) as log:
        orders = commitlog.topic(log, Order, name="order")
        place = {"producer": producer_of(engine), "producer_sequence": number_of(engine)}
        orders.append(Order(1), **place)  # and a kill behind it
        with outbox.relay(engine, log) as relay:
            for _ in range(2):
                with pytest.raises(OutboxError, match="was not given the topic 'order'"):
                    drain(relay)
        with outbox.relay(engine, log, topics=[orders]) as relay:
            drain(relay)
        assert list(orders.tailer()) == [Order(1)]
        assert values(log)[-1] == b"a"


def test_batch_goes_on_in_a_log_that_lost_its_end(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log:
        outbox.relay(engine, log).close()
    shutil.copytree(path, tmp_path / "backup")
    with commitlog.open(path) as log:
        log.append(b"x" * 5000)  # of another producer
    put(engine, outbox, b"a")
    assert killed_after_taking(outbox, engine, path) == "1"
    shutil.rmtree(path)
    shutil.move(tmp_path / "backup", path)
    place = {"producer": producer_of(engine), "producer_sequence": number_of(engine)}
    with commitlog.open(path) as log:  # a kill after the append below the end that was lost
        log.append(b"a", key=b"k", **place)
    with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
        drain(relay)
        assert values(log) == [b"a"]


def producer_of(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        return str(connection.exec_driver_sql("SELECT producer FROM shop_outbox_relay").scalar())


def number_of(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT number FROM shop_outbox_relay").scalar_one())


def killed_after_taking(outbox: Outbox, engine: sa.Engine, path: Path) -> str:
    """Kill a relay when it has taken a batch and appended nothing of it; return the batch."""

    def prepare() -> Callable[[], object]:
        def act() -> None:
            with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
                drain(relay)

        return act

    for step in range(1, 100):
        assert killed_at(step, prepare)
        with engine.connect() as connection:
            asked = connection.exec_driver_sql("SELECT batch FROM shop_outbox_relay")
            if batch := asked.scalar():
                return str(batch)
    raise AssertionError("no batch was taken")


def test_database_restored_from_long_ago_is_refused(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, tmp_path: Path
) -> None:
    put(engine, outbox, b"a")
    with outbox.relay(engine, log) as relay:
        drain(relay)
    restored = copied(engine, tmp_path / "old.db")
    put(engine, outbox, *numbered(100))
    with outbox.relay(engine, log) as relay:
        drain(relay)
    put(restored, outbox, b"c")
    with pytest.raises(OutboxError, match="the log has later rows"):
        outbox.relay(restored, log)
    assert log.count() == 101
    restored.dispose()


def test_restored_log_is_refused(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
        put(engine, outbox, b"a")
        drain(relay)
    shutil.copytree(path, tmp_path / "backup")
    with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
        put(engine, outbox, b"b")
        drain(relay)
    put(engine, outbox, b"c")
    with commitlog.open(tmp_path / "backup") as log:
        with pytest.raises(OutboxError, match="the log does not have the row moved last"):
            outbox.relay(engine, log)
        other = {"producer": "other", "producer_sequence": 0}
        log.append(b"x", **other)  # a record that stands where the row was
        with pytest.raises(OutboxError, match="the log does not have the row moved last"):
            outbox.relay(engine, log)
        with (
            caplog.at_level(logging.WARNING, "commitlog.outbox"),
            outbox.relay(engine, log, restored=True) as relay,
        ):
            assert drain(relay) == 1
        assert values(log) == [b"a", b"x", b"c"]
    assert "all rows are moved, although outbox 'shop_outbox' and the log" in caplog.text


def test_removed_log_keeps_the_rows_in_the_outbox(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    put(engine, outbox, b"a")
    with outbox.relay(engine, log) as relay:
        drain(relay)
        put(engine, outbox, b"b")
        shutil.rmtree(log.path)
        for _ in range(2):
            with pytest.raises(LogNotFoundError, match="these rows stay in the outbox"):
                relay.run_once()
    with engine.connect() as connection:
        assert outbox.stats(connection).waiting == 1


def test_another_log_is_refused(
    engine: sa.Engine, outbox: Outbox, log: CommitLog, tmp_path: Path
) -> None:
    outbox.relay(engine, log).close()
    with (
        commitlog.open(tmp_path / "other") as other,
        pytest.raises(OutboxError, match="the rows go into log .*, and this is "),
    ):
        outbox.relay(engine, other)


def test_copied_database_does_not_take_a_number_twice(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log, outbox.relay(engine, log) as relay:
        put(engine, outbox, b"a")
        drain(relay)
    copy = copied(engine, tmp_path / "copy.db")
    put(copy, outbox, b"of the copy")

    # The copy takes its batch and is killed before the append; then the original goes on.
    killed_after_taking(outbox, copy, path)
    put(engine, outbox, b"b")
    with commitlog.open(path) as log:
        with outbox.relay(engine, log) as relay:
            drain(relay)
        with pytest.raises(OutboxError, match="the log has later rows"):
            outbox.relay(copy, log)
        assert values(log) == [b"a", b"b"]
    copy.dispose()


def test_retention_of_the_log_does_not_disturb_the_relay(
    engine: sa.Engine, outbox: Outbox, log: CommitLog
) -> None:
    put(engine, outbox, b"a")
    with outbox.relay(engine, log) as relay:
        drain(relay)
    for value in (b"x", b"y"):
        log.roll()
        log.append(value)
    log.flush()
    assert log.delete_before(log.tail_position)
    put(engine, outbox, b"b")
    with outbox.relay(engine, log) as relay:
        drain(relay)
    assert values(log) == [b"x", b"y", b"b"]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Orders", "a-b", "x" * 49, "1a", 'a"; --', None])
def test_name_that_is_no_plain_table_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="the name of an outbox"):
        Outbox(name)


def test_missing_table_is_named(engine: sa.Engine, outbox: Outbox, log: CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match="has no table 'absent': call Outbox.create"):
        Outbox("absent").relay(engine, log)
    with outbox.relay(engine, log) as relay:
        outbox.table.drop(engine)
        with pytest.raises(InvalidOptionError, match="has no table 'shop_outbox'"):
            relay.run()


def test_databases_without_a_relay_are_refused(outbox: Outbox, log: CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match="database in memory"):
        outbox.relay(sa.create_engine("sqlite://"), log)
    other = sa.create_engine("mysql://", module=sqlite3)
    with pytest.raises(InvalidOptionError, match="in PostgreSQL or SQLite, not in mysql"):
        outbox.relay(other, log)
    with pytest.raises(InvalidOptionError, match="engine must be a"):
        outbox.relay("sqlite://", log)  # type: ignore[arg-type]


def test_log_that_drops_records_is_refused(
    engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    with (
        commitlog.open(tmp_path / "log", on_lag="drop") as log,
        pytest.raises(InvalidOptionError, match="drops records"),
    ):
        outbox.relay(engine, log)
