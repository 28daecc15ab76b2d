"""Histories of records without the classes of their messages: `history_of` and `to_arrow`."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Record, topics
from commitlog.errors import UndecodableError
from commitlog.topics import catalog as catalogs
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.history import HEAD
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order, Refund, records


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """Return a log with a plain record, a refund and an order that was written for it."""
    with commitlog.open(tmp_path / "log") as opened:
        opened.append(b"plain")
        refunds, orders = commitlog.topic(opened, Refund), commitlog.topic(opened, Order)
        refunds.append(Refund(1))
        with refunds.tailer() as tailer, tailer.reading():
            orders.append(Order(1))
        yield opened


def of_messages(log: CommitLog) -> list[Record]:
    return [record for record in records(log) if record.type != SCHEMA_TYPE]


def test_history_of_any_record_is_read_by_the_schemas(log: CommitLog) -> None:
    plain, refund, order = of_messages(log)
    with commitlog.open(log.path, "r") as other:
        assert topics.history_of(other, plain) is None
        assert topics.history_of(other, refund) is None
        history = topics.history_of(other, order)
        backward = next(iter(other.tailer(direction="backward")))
        assert topics.history_of(other, backward) == history
    assert history is not None
    (hop,) = history.hops
    assert (hop.source.bytes, hop.position) == (log.identity.uuid, refund.position)
    assert hop.written_ns == refund.timestamp_ns <= hop.read_ns <= history.written_ns


def test_history_behind_compression_is_read(tmp_path: Path, log: CommitLog) -> None:
    order = of_messages(log)[-1]
    with commitlog.topic(tmp_path / "small", Order, compress="zstd") as small:
        with commitlog.topic(log, Order).tailer() as tailer, tailer.reading():
            small.append(Order(1))
        history = topics.history_of(small.log, of_messages(small.log)[-1])
    assert history is not None
    assert [hop.position for hop in history.hops][-1] == order.position
    assert len(history.hops) == 2


def test_history_of_a_sealed_message_needs_no_key(log: CommitLog) -> None:
    pytest.importorskip("cryptography")
    ring = topics.KeyRing.of_text(f"k1:{base64.b64encode(bytes(32)).decode()}")
    sealed = commitlog.topic(log, Refund, name="sealed", keys=ring)
    source = of_messages(log)[-1]
    with commitlog.topic(log, Order).tailer() as tailer, tailer.reading():
        position = sealed.append(Refund(1))
    history = topics.history_of(log, log.read(position))
    assert history is not None
    assert history.hops[-1].position == source.position
    table = topics.to_arrow(log, ["sealed"], history=True, keys=ring)
    assert table["history"][0]["hops"][1]["position"].as_py() == source.position


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "its history is damaged"),
        (b"\2", "its history has version 2, and this release reads versions up to 1"),
    ],
)
def test_unreadable_history_is_an_error_with_the_place(
    log: CommitLog, value: bytes, said: str
) -> None:
    position = log.append(value, type=of_messages(log)[-1].type)
    with pytest.raises(UndecodableError, match=said) as caught:
        topics.history_of(log, log.read(position))
    assert (caught.value.position, caught.value.topic) == (position, "Order")


def test_history_without_a_schema_is_an_error(log: CommitLog) -> None:
    position = log.append(b"?", type=0xC123_4567)
    with pytest.raises(UndecodableError, match="no schema of its type number") as caught:
        topics.history_of(log, log.read(position))
    assert caught.value.position == position


def test_catalog_remembers_a_limited_number_of_schemas(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "_MOST_KNOWN", 1)
    monkeypatch.setattr(catalogs, "_MOST_MISSED", 1)
    with commitlog.open(log.path, "r") as other:
        catalog = SchemaCatalog(other)
        for number in list(catalog.schemas_of("Refund", "Order")) * 2:
            found = catalog.find(number)
            assert found is not None
            assert found.number == number
            assert catalog.find(number + 1) is None
        assert len(catalog._known) <= 1
        assert len(catalog._missed) <= 1


def test_table_has_the_histories_of_messages(log: CommitLog) -> None:
    refund, order = of_messages(log)[1:]
    history = topics.history_of(log, order)
    assert history is not None
    table = topics.to_arrow(log, history=True)
    assert topics.to_arrow(log).column_names == table.column_names[:-1]
    none, found = table["history"].to_pylist()
    assert none is None
    assert (found["earlier"], found["remaining"]) == (0, 0)
    assert found["written"].value == history.written_ns
    ((hop,), (expected,)) = found["hops"], history.hops
    assert uuid.UUID(hop["source"]) == expected.source
    assert hop["position"] == refund.position
    assert (hop["written"].value, hop["read"].value) == (expected.written_ns, expected.read_ns)


def test_hops_of_a_table_are_queried(log: CommitLog) -> None:
    import duckdb

    found = topics.to_arrow(log, history=True)
    assert found.num_rows == 2
    rows = duckdb.sql("select hop.position from (select unnest(history.hops) as hop from found)")
    assert rows.fetchall() == [(of_messages(log)[1].position,)]


def test_table_with_a_damaged_history_is_an_error(log: CommitLog) -> None:
    order = of_messages(log)[-1]
    version, hops, *rest = HEAD.unpack_from(order.value)
    position = log.append(HEAD.pack(version, hops + 1, *rest), type=order.type)
    with pytest.raises(UndecodableError, match="its history is damaged") as caught:
        topics.to_arrow(log, history=True)
    assert caught.value.position == position
