"""Messages of six fields in commitlog: by method calls, and by typed appends and reads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Protocol

import msgspec

import commitlog
from bench.peers.loops import BATCH


class Order(msgspec.Struct):
    """The fields of `ChroniclePeer.Order`."""

    id: int
    item: str
    amount: float
    at: int
    quantity: int
    note: str


ORDER = Order(17, "lamp", 12.5, 1_750_000_000_000_000_000, 3, "a gift for a friend")


class Orders(Protocol):
    """Takes orders."""

    def ordered(self, order: Order) -> None: ...


class Taker:
    """Takes orders, and does nothing."""

    def ordered(self, order: Order) -> None: ...


def by_methods(log: commitlog.CommitLog) -> Callable[[int], None]:
    """Return a function that appends so many messages by calls of a method."""
    ordered = commitlog.method_writer(log, Orders).ordered

    def put(records: int) -> None:
        for _ in repeat(None, records):
            ordered(ORDER)

    return put


def by_topic(log: commitlog.CommitLog) -> Callable[[int], None]:
    """Return a function that appends so many messages to a topic, one by one."""
    append = commitlog.topic(log, Order, codec="msgpack").append

    def put(records: int) -> None:
        for _ in repeat(None, records):
            append(ORDER)

    return put


def in_lists(log: commitlog.CommitLog) -> Callable[[int], None]:
    """Return a function that appends so many messages to a topic, in lists."""
    append_many, orders = commitlog.topic(log, Order, codec="msgpack").append_many, [ORDER] * BATCH

    def put(records: int) -> None:
        for _ in repeat(None, records // BATCH):
            append_many(orders)

    return put


APPENDING = {"methods": by_methods, "topic": by_topic, "topic_many": in_lists}


def read_all(log: commitlog.CommitLog, form: str) -> int:
    """Read all messages of a log by its method or topic; return their number."""
    if form == "methods":
        with commitlog.method_reader(log, Taker(), start="first") as reader:
            return reader.run(timeout=0)
    with commitlog.topic(log, Order, codec="msgpack").tailer(start="first") as tailer:
        return sum(1 for _ in tailer)
