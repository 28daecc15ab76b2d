"""What deltas save and cost: states of orders, of which three fields change, beside the same states
compressed with a dictionary alone.
"""

from __future__ import annotations

import datetime as dt
import gc
import random
import shutil
import statistics
import time
from pathlib import Path

import msgspec

import commitlog
from commitlog import topics
from commitlog.messages.schema import is_message_type

ORDERS = 500
STATES = 10_000
GOAL_TIMES = 1.3
_WAYS: dict[str, topics.Zstd] = {
    "dictionary": topics.Zstd(),
    "deltas": topics.Zstd(delta=True),
}


class Line(msgspec.Struct):
    """A line of an order."""

    sku: str
    name: str
    quantity: int
    price: str


class Order(msgspec.Struct):
    """An order, some 600 bytes of JSON, of which the last three fields change."""

    id: str
    customer: str
    email: str
    street: str
    town: str
    lines: list[Line]
    status: str
    changed: dt.datetime
    revision: int


def states() -> list[tuple[bytes, Order]]:
    """Return the states of some orders, each with its key, the same ones in each round."""
    drawn = random.Random(7)
    orders = [order(number, drawn) for number in range(ORDERS)]
    found = []
    for _ in range(STATES):
        number = drawn.randrange(ORDERS)
        state = orders[number] = msgspec.structs.replace(
            orders[number],
            status=drawn.choice(["paid", "packed", "sent", "delivered"]),
            changed=orders[number].changed + dt.timedelta(microseconds=drawn.randrange(10**12)),
            revision=orders[number].revision + 1,
        )
        found.append((state.id.encode(), state))
    return found


def order(number: int, drawn: random.Random) -> Order:
    """Return an order of 3 to 6 lines."""
    lines = [
        Line(
            f"sku-{drawn.randrange(10**5):05d}",
            f"{drawn.choice(['lamp', 'desk', 'chair', 'shelf'])} {drawn.choice(['oak', 'steel'])}",
            drawn.randrange(1, 5),
            f"{drawn.randrange(100, 99999) / 100:.2f}",
        )
        for _ in range(drawn.randrange(3, 7))
    ]
    return Order(
        f"order-{number:06d}-{drawn.getrandbits(48):012x}",
        f"customer-{drawn.randrange(10**6):06d}",
        f"user{drawn.randrange(10**6)}@example.com",
        f"{drawn.choice(['Main', 'Oak', 'Hill'])} Street {drawn.randrange(200)}",
        drawn.choice(["Berlin", "Oslo", "Lima", "Kyoto", "Accra"]),
        lines,
        "new",
        dt.datetime(2026, 5, 1, tzinfo=dt.UTC),
        1,
    )


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """Measure each way once, in a new log: bytes of a value and of the log, and nanoseconds."""
    given = states()
    return {name: _measured(folder / name, zstd, given) for name, zstd in _WAYS.items()}


def _measured(path: Path, zstd: topics.Zstd, given: list[tuple[bytes, Order]]) -> dict[str, float]:
    with commitlog.open(path, flush="none", segment_size="64MiB") as log:
        topic = commitlog.topic(log, Order, compress=zstd)
        gc.disable()
        begin = time.thread_time_ns()
        for key, order in given:
            topic.append(order, key=key)
        middle = time.thread_time_ns()
        found = sum(1 for _ in topic.tailer())
        end = time.thread_time_ns()
        gc.enable()
        assert found == STATES
        values = sum(len(each.value) for each in log.tailer() if is_message_type(each.type))
        figures = {
            "bytes": values / STATES,
            "in the log": log.tail_position / STATES,
            "append ns": (middle - begin) / STATES,
            "read ns": (end - middle) / STATES,
        }
    shutil.rmtree(path)
    return figures


def report(rounds: list[dict[str, dict[str, float]]]) -> None:
    """Print the medians of the rounds."""
    print(f"{STATES} states of {ORDERS} orders, of which three fields change")
    medians = {
        way: {
            name: statistics.median(each[way][name] for each in rounds) for name in rounds[0][way]
        }
        for way in _WAYS
    }
    for way, found in medians.items():
        print(
            f"  {way:<11} {found['bytes']:5.0f} bytes, {found['in the log']:5.0f} in the log, "
            f"append {found['append ns']:6.0f} ns, read {found['read ns']:6.0f} ns"
        )
    times = medians["dictionary"]["bytes"] / medians["deltas"]["bytes"]
    print(f"  deltas are {times:.1f} times smaller (goal: more than {GOAL_TIMES})")
