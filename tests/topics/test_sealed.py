"""Sealed topics: appending, reading, and what needs a package."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import topics
from commitlog.errors import (
    ConflictError,
    KeyUnavailableError,
    MissingExtraError,
)
from commitlog.topics.data_key import HEAD_BYTES
from commitlog.topics.key_ring import VARIABLE
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order, records
from tests.topics.sealed import OLD, RING, data_keys, messages, orders_of

pytest.importorskip("cryptography")
SEGMENT = "64KiB"


def test_sealed_messages_are_read_and_not_seen(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(1, "secret lamp"), key=b"lena")
        orders.append_many([Order(2, "secret desk"), Order(3)], keys=[None, b"omar"])
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
    with commitlog.topic(tmp_path / "log", Order, keys=RING, mode="r") as orders:
        tailer = orders.tailer()
        assert tailer.read() == Order(1, "secret lamp")
        assert tailer.record is not None
        assert tailer.record.key == b"lena"
    for path in (tmp_path / "log").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()


def test_async_appends_are_sealed(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)

    async def append_and_read() -> list[Order]:
        for number in range(3):
            await orders.append_async(Order(number), key=b"k")
        return [each async for each in orders.tailer().follow(timeout=0)]

    assert asyncio.run(append_and_read()) == [Order(0), Order(1), Order(2)]


def test_topic_with_sealed_messages_stays_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(2))
    with commitlog.topic(tmp_path / "log", Order) as orders:
        for act in (lambda: orders.append(Order(3)), lambda: orders.append_many([Order(3)])):
            with pytest.raises(KeyUnavailableError, match="give keys=") as caught:
                act()
            assert caught.value.path == orders.log.path
        assert len(messages(orders.log)) == 2
    monkeypatch.setenv(VARIABLE, OLD)
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(3))
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
        assert len(messages(orders.log)[2].value) > HEAD_BYTES + len(messages(orders.log)[0].value)


def test_environment_seals_no_topic_by_itself(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    orders_of(log, None).append(Order(1))
    assert messages(log)[0].value.startswith(b"{")


def test_each_segment_is_read_alone(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
        for number in range(400):
            orders.append(Order(number, "x" * 200))
        orders.append_many([Order(number, "x" * 200) for number in range(400, 1000)])
        orders.append(Order(1000), expect=orders.log.count())
    found = []
    paths = sorted((tmp_path / "log").glob("*.seg"))
    for path in paths:
        with commitlog.open(path, "r") as log:
            if log.count():
                found += [order.id for order in orders_of(log).tailer()]
    assert found == list(range(1001))
    assert len(paths) > 4


def test_list_with_expect_has_its_data_key_before_it(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)
    large = [Order(number, "x" * 3700) for number in range(2)]
    orders.append_many(large, expect=0)
    assert [record.type == SCHEMA_TYPE for record in records(log)] == [True, True, False, False]
    assert list(orders.tailer()) == large
    with pytest.raises(ConflictError):
        orders.append(Order(3), expect=0)
    orders.append(Order(3), expect=4)


def test_process_that_begins_a_segment_keeps_messages_readable(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
        orders.append(Order(1))
        with commitlog.open(tmp_path / "log") as other:
            other.roll()
        orders.append(Order(2))
        orders.append(Order(3))
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
    path = sorted((tmp_path / "log").glob("*.seg"))[1]
    with commitlog.open(path, "r") as log:
        assert [order.id for order in orders_of(log).tailer()] == [2, 3]


def test_data_key_that_only_an_earlier_segment_has_is_found(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between a message and the records of its new segment."""
    orders = orders_of(log)
    orders.append(Order(1))
    monkeypatch.setattr("commitlog.topics.appender.TopicAppender.declare_behind", lambda *_: None)
    log.roll()
    position = orders.append(Order(2))
    assert position >= log.segment_size
    assert len(data_keys(log)) == 1
    assert list(orders.tailer(start=position)) == [Order(2)]


def test_dropped_data_key_is_appended_again(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pooled log whose appends are dropped while no buffer is free."""
    orders = orders_of(log)
    append_many = commitlog.CommitLog.append_many

    def dropping(self: commitlog.CommitLog, values: list[bytes], **options: Any) -> Any:
        given = {name: options[name][2:] for name in ("keys", "types")}
        positions = append_many(self, values[2:], **{**options, **given})
        return [-1, -1, *positions]

    def dropped(*_: Any, **__: Any) -> int:
        return -1

    with monkeypatch.context() as patch:
        patch.setattr(commitlog.CommitLog, "append_many", lambda *a, **o: _array(dropping(*a, **o)))
        patch.setattr(commitlog.CommitLog, "append", dropped)
        orders.append(Order(1))
    assert data_keys(log) == []
    orders.append(Order(2))
    assert list(orders.tailer()) == [Order(1), Order(2)]


def _array(positions: list[int]) -> Any:
    import numpy as np

    return np.array(positions, dtype=np.int64)


def test_outputs_with_a_history_are_sealed(tmp_path: Path) -> None:
    class Service:
        def sold(self, number: int) -> None:
            orders.append(Order(number), key=b"k")
            orders.append_many([Order(number + 1), Order(number + 2)])

    class Shop:
        def sold(self, number: int) -> None: ...

    with (
        commitlog.open(tmp_path / "in") as source,
        commitlog.topic(tmp_path / "out", Order, keys=RING) as orders,
    ):
        commitlog.method_writer(source, Shop).sold(4)
        with commitlog.method_reader(source, Service(), after_last_written=orders.log) as reader:
            assert reader.read_one()
        tailer = orders.tailer()
        for number in range(4, 7):
            assert tailer.read() == Order(number)
            assert tailer.history is not None
        assert len(data_keys(orders.log)) == 1


def test_methods_are_sealed(log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shop:
        total = 0

        def sold(self, item: str, amount: int) -> None:
            self.total += amount

    class Closed:
        async def closed(self) -> None: ...

    shop = commitlog.method_writer(log, Shop, keys=RING)
    shop.sold("secret", 3)
    commitlog.method_writer(log, Shop, keys=RING).sold("secret", amount=4)
    assert not any(b"secret" in record.value for record in messages(log))
    impl = Shop()
    with commitlog.method_reader(log, impl, keys=RING) as reader:
        assert reader.run(timeout=0) == 2
    assert impl.total == 7
    unknown: list[Any] = []
    with commitlog.method_reader(
        log, Closed(), on_unknown=lambda *call: unknown.append(call), keys=RING
    ) as reader:
        asyncio.run(reader.run_async(timeout=0))
    assert unknown[0] == ("sold", {"item": "secret", "amount": 3})
    with commitlog.method_reader(log, impl) as reader:
        for _ in range(2):
            with pytest.raises(KeyUnavailableError, match="2025") as caught:
                reader.read_one()
            assert caught.value.position == messages(log)[0].position
        monkeypatch.setenv(VARIABLE, OLD)
    with commitlog.method_reader(log, impl) as reader:
        assert reader.run(timeout=0) == 2


def test_table_has_sealed_messages(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders_of(log).append_many([Order(1), Order(2)], keys=[b"a", None])
    assert topics.to_arrow(log, keys=RING)["message"][1]["Order"]["id"].as_py() == 2
    with pytest.raises(KeyUnavailableError):
        topics.to_arrow(log)
    monkeypatch.setenv(VARIABLE, OLD)
    assert len(topics.to_arrow(log)) == 2


def test_missing_package_is_named_with_its_extra(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders_of(log).append(Order(1))
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"needs cryptography: .*\[sealed\]"):
        orders_of(log)
    with pytest.raises(MissingExtraError, match=r"\[sealed\]"):
        topics.to_arrow(log, keys=RING)
