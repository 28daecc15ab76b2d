"""`headers=` of a topic: beside its messages, with all layers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

import commitlog
from commitlog import CommitLog, topics
from commitlog.errors import InvalidOptionError, RecordTooLargeError, RecordTypeError
from commitlog.topics import MethodReader
from tests.topics.orders import Order, Refund, records, schema_positions

TRACE = {"traceparent": b"00-1-2-01", "z": b""}


def headers_of(topic: Any) -> list[dict[str, bytes]]:
    with topic.tailer(start="first") as tailer:
        return [tailer.headers for _ in tailer]


def sealed(**more: bool) -> dict[str, Any]:
    pytest.importorskip("cryptography")
    return {"keys": topics.KeyRing.of_text(f"k1:{base64.b64encode(bytes(32)).decode()}"), **more}


@pytest.fixture(params=["plain", "zstd", "sealed", "positions"])
def layers(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {
        "plain": dict,
        "zstd": lambda: {"compress": topics.Zstd(dictionary=b"")},
        "sealed": sealed,
        "positions": lambda: sealed(seal_positions=True),
    }[request.param]()


def test_message_is_read_with_its_headers(log: CommitLog, layers: dict[str, Any]) -> None:
    orders = commitlog.topic(log, Order, **layers)
    orders.append(Order(1), headers=TRACE)
    orders.append(Order(2))
    orders.append(Order(3), key=b"k", headers={"other": b"1"}, expect=log.count())
    orders.append_many([Order(4), Order(5)], headers=[None, TRACE])
    asyncio.run(orders.append_async(Order(6), headers=TRACE))
    assert headers_of(orders) == [TRACE, {}, {"other": b"1"}, {}, TRACE, TRACE]
    assert [order.id for order in orders.tailer(start="first")] == [1, 2, 3, 4, 5, 6]
    assert orders.tailer().headers == {}


def test_producer_and_headers_go_together(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    first = orders.append(Order(1), producer="till", producer_sequence=1, headers=TRACE)
    assert orders.append(Order(1), producer="till", producer_sequence=1) == first
    assert headers_of(orders) == [TRACE]


def test_each_segment_has_the_schema_before_headers(log: CommitLog, layers: dict[str, Any]) -> None:
    orders = commitlog.topic(log, Order, **layers)
    long = {"n": bytes(1500)}
    for number in range(80):
        orders.append(Order(number, "x" * 300), headers=long)
    orders.append_many([Order(80 + number) for number in range(80)], headers=[long] * 80)
    assert headers_of(orders) == [long] * 160
    segments = {record.position // log.segment_size for record in records(log)}
    assert len(segments) > 3
    assert {position // log.segment_size for position in schema_positions(log)} == segments


def test_outputs_of_a_handled_message_have_their_headers(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order, history=True)
    refunds = commitlog.topic(log, Refund, history=True)
    orders.append(Order(1), headers=TRACE)
    with orders.tailer(start="first") as tailer, tailer.reading() as message:
        assert message == Order(1)
        refunds.append(Refund(1), headers=tailer.headers)
        refunds.append(Refund(2))
    assert headers_of(refunds) == [TRACE, {}]


def test_bad_headers_append_nothing(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    end = log.tail_position
    with pytest.raises(RecordTypeError, match="a mapping of names to bytes"):
        orders.append(Order(1), headers=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="one item for each message: 1 for 2"):
        orders.append_many([Order(1), Order(2)], headers=[TRACE])
    with pytest.raises(RecordTooLargeError, match="with its key and headers"):
        orders.append_many([Order(1)], headers=[{"n": bytes(9000)}])
    with pytest.raises(RecordTooLargeError):
        orders.append(Order(1), headers={"n": bytes(9000)}, producer="till", producer_sequence=1)
    assert log.tail_position == end


class Shop(Protocol):
    def sold(self, item: str) -> None: ...


class AsyncShop(Protocol):
    async def sold(self, item: str) -> None: ...


class Till:
    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, bytes]]] = []
        self.reader: MethodReader | None = None

    def sold(self, item: str) -> None:
        assert self.reader is not None
        self.seen.append((item, self.reader.headers))


def test_calls_have_the_headers_that_a_function_returns(tmp_path: Path) -> None:
    given: list[dict[str, bytes] | None] = [{"trace": b"1"}, None, {}, {"trace": b"2"}]

    def intercept(name: str, arguments: dict[str, Any], proceed: Callable[..., Any]) -> object:
        return proceed({"item": arguments["item"] + "!"})

    with commitlog.open(tmp_path / "log") as log:
        take = iter(given).__next__
        shop = commitlog.method_writer(log, Shop, headers=take)
        for item in ("a", "b"):
            shop.sold(item)
        commitlog.method_writer(log, Shop, headers=take, intercept=intercept).sold("c")
        asyncio.run(commitlog.method_writer(log, AsyncShop, headers=take).sold("d"))
        till = Till()
        with commitlog.method_reader(log, till) as till.reader:
            assert till.reader.headers == {}
            till.reader.run(timeout=0)
            assert till.reader.headers == {"trace": b"2"}
        assert till.seen == [
            ("a", {"trace": b"1"}),
            ("b", {}),
            ("c!", {}),
            ("d", {"trace": b"2"}),
        ]
        with (
            commitlog.method_reader(log, Till(), history=False) as reader,
            pytest.raises(InvalidOptionError, match="leave history=False out"),
        ):
            _ = reader.headers
        with pytest.raises(InvalidOptionError, match="headers must be a function"):
            commitlog.method_writer(log, Shop, headers={"a": b"b"})  # type: ignore[arg-type]
