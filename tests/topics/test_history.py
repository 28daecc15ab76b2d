"""Messages that are written while another is handled carry where that one came from."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import commitlog
from commitlog import CommitLog, Record, method_reader, method_writer, topics
from commitlog.errors import UndecodableError
from commitlog.topics import history as histories
from commitlog.topics.decoding import MessageDecoder
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order, Refund, records


class Shop(Protocol):
    def sold(self, item: str) -> None: ...


class Events(Protocol):
    def packed(self, item: str) -> None: ...
    async def billed(self, item: str) -> None: ...


class Packer:
    def __init__(self, out: Any) -> None:
        self.out = out

    def sold(self, item: str) -> None:
        self.out.packed(item)


class Again:
    """Writes each call that it handles again."""

    def __init__(self, out: Any) -> None:
        self.out = out

    def packed(self, item: str) -> None:
        self.out.packed(item)


class Sink:
    def __init__(self) -> None:
        self.histories: list[Any] = []
        self.reader: Any = None

    def packed(self, item: str) -> None:
        self.histories.append(self.reader.history)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[CommitLog, CommitLog, CommitLog]]:
    names = ("orders", "packed", "sent")
    opened = [commitlog.open(tmp_path / name, segment_size="64KiB") for name in names]
    yield opened[0], opened[1], opened[2]
    for log in opened:
        log.close()


def messages(log: CommitLog) -> list[Record]:
    return [record for record in records(log) if record.type != SCHEMA_TYPE]


def read_histories(log: CommitLog) -> list[Any]:
    sink = Sink()
    sink.reader = method_reader(log, sink)
    sink.reader.run(timeout=0)
    return sink.histories


def test_call_carries_source_position_and_times(logs: tuple[CommitLog, ...]) -> None:
    source, target, _ = logs
    begin = time.time_ns()
    method_writer(source, Shop).sold("lamp")
    method_reader(source, Packer(method_writer(target, Events))).run(timeout=0)
    (history,) = read_histories(target)
    (hop,) = history.hops
    record = messages(source)[0]
    assert hop.source == uuid.UUID(bytes=source.identity.uuid)
    assert (hop.position, hop.written_ns) == (record.position, record.timestamp_ns)
    assert begin <= hop.read_ns <= history.written_ns <= time.time_ns()


def test_history_grows_by_one_hop_for_each_log(logs: tuple[CommitLog, ...]) -> None:
    first, second, third = logs
    method_writer(first, Shop).sold("lamp")
    method_reader(first, Packer(method_writer(second, Events))).run(timeout=0)
    method_reader(second, Again(method_writer(third, Events))).run(timeout=0)
    (before,), (history,) = read_histories(second), read_histories(third)
    assert history.hops[0] == before.hops[0]
    assert history.hops[1].written_ns == before.written_ns
    assert [hop.position for hop in history.hops] == [
        messages(log)[0].position for log in (first, second)
    ]


def test_hop_takes_at_most_sixty_bytes(logs: tuple[CommitLog, ...]) -> None:
    first, second, third = logs
    plain, carrying = method_writer(second, Events, history=False), method_writer(second, Events)
    method_writer(first, Shop).sold("lamp")
    method_reader(first, Packer(plain), Packer2(carrying)).run(timeout=0)
    method_reader(second, Again(method_writer(third, Events))).run(timeout=0)
    sizes = [len(record.value) for record in (*messages(second), *messages(third))]
    bare = len(messages(first)[0].value)
    assert sizes[0] - bare <= 60
    assert max(sizes[1:]) - bare <= 2 * 60


class Packer2:
    def __init__(self, out: Any) -> None:
        self.out = out

    def bought(self, item: str) -> None:
        self.out.packed(item)


def test_message_outside_of_a_handler_has_no_history(logs: tuple[CommitLog, ...]) -> None:
    first, second, _ = logs
    for log, history in ((first, True), (second, False)):
        commitlog.topic(log, Order, history=history).append(Order(1))
    taken = [[(each.type, each.key, each.value) for each in records(log)] for log in logs[:2]]
    assert taken[0] == taken[1]


@pytest.mark.parametrize("where", ["writer", "reader"])
def test_history_false_leaves_messages_without_history(
    logs: tuple[CommitLog, ...], where: str
) -> None:
    source, target, _ = logs
    method_writer(source, Shop).sold("lamp")
    out = method_writer(target, Events, history=where != "writer")
    method_reader(source, Packer(out), history=where != "reader").run(timeout=0)
    assert read_histories(target) == [None]
    assert len(messages(target)[0].value) == len(messages(source)[0].value)


def test_messages_appended_in_reading_carry_history(logs: tuple[CommitLog, ...]) -> None:
    source, target, _ = logs
    commitlog.topic(source, Order).append_many([Order(1), Order(2)])
    refunds = commitlog.topic(target, Refund, codec="msgpack")
    tailer = commitlog.topic(source, Order).tailer()
    with tailer.reading() as order:
        assert order is not None
        refunds.append(Refund(order.id), key=b"lamp")
        refunds.append_many([Refund(2), Refund(3)])
        asyncio.run(refunds.append_async(Refund(4)))
    refunds.append(Refund(5))
    reading = refunds.tailer()
    found = [(message.order, reading.history) for message in reading]
    assert [number for number, _ in found] == [1, 2, 3, 4, 5]
    assert {history.hops[0].position for _, history in found[:4] if history} == {
        messages(source)[0].position
    }
    assert found[4][1] is None
    assert messages(target)[0].key == b"lamp"


def test_block_that_raises_ends_the_handling(logs: tuple[CommitLog, ...]) -> None:
    source, target, _ = logs
    orders, refunds = commitlog.topic(source, Order), commitlog.topic(target, Refund)
    orders.append(Order(1))
    with pytest.raises(RuntimeError), orders.tailer().reading():
        raise RuntimeError
    refunds.append(Refund(1))
    reading = refunds.tailer()
    assert (reading.read(), reading.history) == (Refund(1), None)


def test_messages_with_history_are_decoded_without_classes(logs: tuple[CommitLog, ...]) -> None:
    source, target, _ = logs
    orders, refunds = commitlog.topic(source, Order), commitlog.topic(target, Refund)
    orders.append(Order(1))
    with orders.tailer().reading():
        refunds.append(Refund(7))
    record = messages(target)[0]
    found = MessageDecoder(target).decode(record.type, record.value, record.position, record.key)
    assert found == ("Refund", {"order": 7}, None, None)


def test_full_history_keeps_the_newest_hops(logs: tuple[CommitLog, ...]) -> None:
    log = logs[0]
    out = method_writer(log, Events)
    out.packed("lamp")
    reader = method_reader(log, Again(out))
    for _ in range(histories.MOST_HOPS + 3):
        assert reader.read_one()
    last = read_histories(log)[-1]
    assert (len(last.hops), last.earlier) == (histories.MOST_HOPS, 3)
    assert last.hops[-1].position == messages(log)[-2].position


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda value: b"", "history is damaged"),
        (lambda value: value[:30], "history is damaged"),
        (lambda value: value[:1] + b"\0" + value[2:], "history is damaged"),
        (lambda value: value[:1] + b"\xff" + value[2:], "history is damaged"),
        (lambda value: b"\2" + value[1:], "version 2, and this release reads versions up to 1"),
    ],
    ids=["empty", "short", "no hop", "too many hops", "newer"],
)
def test_damaged_history_raises_naming_the_damage(
    logs: tuple[CommitLog, ...], change: Any, match: str
) -> None:
    source, target, _ = logs
    orders, refunds = commitlog.topic(source, Order), commitlog.topic(target, Refund)
    orders.append(Order(1))
    with orders.tailer().reading():
        refunds.append(Refund(7))
    record = messages(target)[0]
    position = target.append(change(record.value), type=record.type)
    reading = refunds.tailer()
    assert reading.read() == Refund(7)
    with pytest.raises(UndecodableError, match=match) as caught:
        reading.read()
    assert caught.value.position == position
    raw = refunds.tailer(on_undecodable="raw", start=position)
    with raw.reading() as taken:
        assert isinstance(taken, Record)
        topics.tailer([refunds])  # a reader in the block sees nothing of it
        assert refunds.append(Refund(8)) > 0
