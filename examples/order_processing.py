"""Process orders: one log has the orders, and a service writes events about them to another.

`serve` in one terminal and `order` in another; kill `serve` and start it again at any time. Then
`replay` compares its events with those that a new service makes of the same orders, and `trace`
prints how long each event was on its way.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Protocol

from options import parser_of, until_ctrl_c

import commitlog
from commitlog import CommitLog

STOCK = {"lamp": 500, "desk": 200, "chair": 900}


class Desk(Protocol):
    def ordered(self, order: int, item: str, quantity: int) -> None: ...


class Orders(Protocol):
    def by(self, customer: str) -> Desk: ...


class Events(Protocol):
    def accepted(self, order: int, item: str, quantity: int) -> None: ...
    def rejected(self, order: int, item: str, why: str) -> None: ...


class Stock:
    """What is left of each item, by the orders that were accepted."""

    def __init__(self) -> None:
        self.left = dict(STOCK)

    def accepted(self, order: int, item: str, quantity: int) -> None:
        self.left[item] -= quantity

    def rejected(self, order: int, item: str, why: str) -> None: ...


class Service:
    """Accepts or rejects orders. The same orders and stock make the same events."""

    def __init__(self, stock: Stock, out: Events) -> None:
        self.stock = stock
        self.out = out

    def by(self, customer: str) -> Service:
        return self

    def ordered(self, order: int, item: str, quantity: int) -> None:
        left = self.stock.left.get(item, 0)
        if quantity > left:
            self.out.rejected(order, item, f"only {left} left")
        else:
            self.stock.accepted(order, item, quantity)
            self.out.accepted(order, item, quantity)


class Recorder:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def accepted(self, order: int, item: str, quantity: int) -> None:
        self.events.append(("accepted", order, item, quantity))

    def rejected(self, order: int, item: str, why: str) -> None:
        self.events.append(("rejected", order, item, why))


def order(orders: CommitLog, count: int) -> None:
    """Place orders."""
    numbers = random.Random()
    first = orders.count()
    desk = commitlog.method_writer(orders, Orders)
    for number in range(first, first + count):
        item, quantity = numbers.choice([*STOCK, "sofa"]), numbers.randint(1, 9)
        desk.by(numbers.choice(["ada", "ben"])).ordered(number, item, quantity)
    print(f"placed {count} orders")


def serve(orders: CommitLog, events: CommitLog, limit: int | None) -> None:
    """Handle orders, from behind the last one that has an event."""
    stock = Stock()
    with commitlog.method_reader(events, stock) as earlier:
        found = earlier.run(timeout=0)
    service = Service(stock, commitlog.method_writer(events, Events))
    with commitlog.method_reader(
        orders, service, name="service", after_last_written=events
    ) as reader:
        print(f"found {found} events; {stock.left}", flush=True)
        handled = 0
        while limit is None or found + handled < limit:
            handled += reader.read_one(timeout="1s")
    print(f"handled {handled} orders; {stock.left}")


def replay(orders: CommitLog, events: CommitLog) -> None:
    """Compare the events with those that a new service makes of the same orders."""
    before, now = Recorder(), Recorder()
    commitlog.method_reader(events, before).run(timeout=0)
    commitlog.method_reader(orders, Service(Stock(), now)).run(timeout=0)
    handled = now.events[: len(before.events)]
    if handled != before.events:
        sys.exit("the replay made other events")
    waiting = len(now.events) - len(handled)
    print(f"the replay made the same {len(handled)} events; {waiting} orders are not handled yet")


def trace(events: CommitLog, limit: int) -> None:
    """Print how long the first events were on their way."""
    with commitlog.method_reader(events, Recorder()) as reader:
        for _ in range(limit):
            if not reader.read_one():
                break
            history = reader.history
            assert history is not None
            (hop,) = history.hops
            waited, took = hop.read_ns - hop.written_ns, history.written_ns - hop.read_ns
            print(
                f"order at {hop.position}: waited {waited / 1e3:.1f} µs, took {took / 1e3:.1f} µs"
            )


def main() -> None:
    parser = parser_of(__doc__, "orders")
    parser.add_argument("what", choices=["order", "serve", "replay", "trace"])
    chosen = parser.parse_args()
    orders_path, events_path = (os.path.join(chosen.path, name) for name in ("orders", "events"))
    with (
        until_ctrl_c(),
        commitlog.open(orders_path) as orders,
        commitlog.open(events_path) as events,
    ):
        if chosen.what == "order":
            order(orders, chosen.limit or 1000)
        elif chosen.what == "serve":
            serve(orders, events, chosen.limit)
        elif chosen.what == "replay":
            replay(orders, events)
        else:
            trace(events, chosen.limit or 10)


if __name__ == "__main__":
    main()
