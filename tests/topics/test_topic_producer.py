"""`producer=` of a topic: a repeat of a number returns the first position, and appends nothing."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any, Protocol

import pytest

import commitlog
from commitlog import CommitLog, topics
from commitlog.errors import InUseError, InvalidOptionError, RecordTooLargeError
from tests.topics.orders import Order, Refund, records, schema_positions


def test_repeat_of_a_sealed_message_returns_the_first_position(log: CommitLog) -> None:
    pytest.importorskip("cryptography")
    ring = topics.KeyRing.of_text(f"k1:{base64.b64encode(bytes(32)).decode()}")
    orders = commitlog.topic(log, Order, keys=ring)
    first = orders.append(Order(1), producer="till", producer_sequence=1)
    assert orders.append(Order(1), producer="till", producer_sequence=1) == first
    assert list(orders.tailer()) == [Order(1)]


@pytest.mark.parametrize("compress", [None, topics.Zstd(dictionary=b"")])
def test_repeat_returns_the_first_position(log: CommitLog, compress: Any) -> None:
    orders = commitlog.topic(log, Order, compress=compress)
    first = orders.append(Order(1), producer="till", producer_sequence=1)
    second = orders.append(Order(2), producer="till", producer_sequence=2, key=b"k")
    assert orders.append(Order(7), producer="till", producer_sequence=1) == first
    assert orders.append(Order(7), producer="till", producer_sequence=2) == second
    assert list(orders.tailer()) == [Order(1), Order(2)]
    assert (log.read(second).key, schema_positions(log)) == (b"k", [log.first_position])


def test_repeat_of_a_later_handle_appends_no_message(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with commitlog.topic(tmp_path / "log", Order) as orders:
            found.append(orders.append(Order(1), producer="till", producer_sequence=1))
            assert list(orders.tailer()) == [Order(1)]
    assert found[0] == found[1]


def test_coroutines_repeat_a_number(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order)

    async def appended() -> int:
        return await orders.append_async(Order(1), producer="till", producer_sequence=1)

    assert asyncio.run(appended()) == asyncio.run(appended())
    assert list(orders.tailer()) == [Order(1)]


def test_each_segment_has_the_schema_before_numbered_messages(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    for number in range(400):
        orders.append(Order(number, "x" * 700), producer="till", producer_sequence=number)
    assert [order.id for order in orders.tailer()] == list(range(400))
    segments = {record.position // log.segment_size for record in records(log)}
    assert len(segments) > 4
    assert {position // log.segment_size for position in schema_positions(log)} == segments
    first = {
        number: min(
            each.position for each in records(log) if each.position // log.segment_size == number
        )
        for number in segments
    }
    assert set(first.values()) <= set(schema_positions(log))


def test_numbered_message_carries_its_history(log: CommitLog) -> None:
    orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund)
    source = orders.append(Order(1))
    with orders.tailer() as tailer, tailer.reading():
        position = refunds.append(Refund(1), producer="till", producer_sequence=1)
    history = topics.history_of(log, log.read(position))
    assert history is not None
    assert [hop.position for hop in history.hops] == [source]
    assert list(refunds.tailer()) == [Refund(1)]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"producer": "till"}, InvalidOptionError, "producer_sequence must be"),
        ({"producer_sequence": 1}, InvalidOptionError, "producer must be a name"),
        (
            {"producer": "till", "producer_sequence": 1, "expect": 0},
            *(InvalidOptionError, "exclude each other"),
        ),
        (
            {"message": Order(1, "x" * 9000), "producer": "till", "producer_sequence": 1},
            *(RecordTooLargeError, "a message of topic 'Order' has"),
        ),
    ],
)
def test_refused_number_appends_nothing(
    log: CommitLog, given: dict[str, Any], error: type[Exception], match: str
) -> None:
    orders = commitlog.topic(log, Order)
    given = {"message": Order(1), **given}
    with pytest.raises(error, match=match):
        orders.append(**given)
    with pytest.raises(error, match=match):
        asyncio.run(orders.append_async(**given))
    assert records(log) == []


def test_producer_of_another_handle_appends_no_message(log: CommitLog, tmp_path: Path) -> None:
    log.append(b"plain", producer="till", producer_sequence=1)
    with commitlog.topic(tmp_path / "log", Order) as orders:
        with pytest.raises(InUseError):
            orders.append(Order(1), producer="till", producer_sequence=2)
        assert list(orders.tailer()) == []


class Shop(Protocol):
    def sold(self, item: str) -> None: ...


class Numbering:
    def __init__(self, refunds: topics.Topic[Refund]) -> None:
        self._refunds = refunds

    def sold(self, item: str) -> None:
        self._refunds.append(Refund(1), producer="till", producer_sequence=1)


def test_output_of_a_pipeline_takes_no_producer(log: CommitLog, tmp_path: Path) -> None:
    commitlog.method_writer(log, Shop).sold("lamp")
    with commitlog.open(tmp_path / "out") as out:
        handler = Numbering(commitlog.topic(out, Refund))
        reader = commitlog.method_reader(log, handler, after_last_written=out)
        with reader, pytest.raises(InvalidOptionError, match="cannot give expect= or producer="):
            reader.run(timeout=0)
        assert records(out) == []
