"""`python -m bench.messages`: what a typed append and a typed read cost above their parts, and what
a method call, a sealed message and a compressed one cost.

Each round measures all cases one after the other; the table has the medians of the rounds.
"""

from __future__ import annotations

import datetime as dt
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import msgspec

import commitlog
from bench.messages import compressing, sealing

ROUNDS = 7
MESSAGES = 20_000
GOAL_NS = 150
CALL_GOAL_NS = 600


class Order(msgspec.Struct):
    """A message with six fields."""

    id: int
    item: str
    amount: Decimal
    at: dt.datetime
    quantity: int
    note: str


class Shop(Protocol):
    """An interface with one method of two parameters."""

    def sold(self, item: str, amount: int) -> None: ...


class Till:
    """Takes the calls."""

    def sold(self, item: str, amount: int) -> None: ...


ORDER = Order(17, "lamp", Decimal("12.50"), dt.datetime(2026, 5, 1, tzinfo=dt.UTC), 3, "gift")


def nanoseconds(work: Callable[[], int]) -> float:
    """Return the time for each of the messages that `work` counts."""
    begin = time.thread_time_ns()
    count = work()
    return (time.thread_time_ns() - begin) / count


def measured(codec: str, folder: Path) -> dict[str, float]:
    """Measure each case of a codec once, in a new log."""
    format = getattr(msgspec, codec)
    encode = format.Encoder().encode
    decode = format.Decoder(Order).decode
    path = folder / "log"
    with commitlog.open(path, flush="none", segment_size="64MiB") as log:
        orders = commitlog.topic(log, Order, codec=codec)

        def raw() -> int:
            append = log.append
            for _ in range(MESSAGES):
                append(encode(ORDER), type=number)
            return MESSAGES

        def typed() -> int:
            append = orders.append
            for _ in range(MESSAGES):
                append(ORDER)
            return MESSAGES

        def raw_many() -> int:
            log.append_many([encode(ORDER) for _ in range(MESSAGES)], types=[number] * MESSAGES)
            return MESSAGES

        def typed_many() -> int:
            orders.append_many([ORDER] * MESSAGES)
            return MESSAGES

        def raw_read() -> int:
            count = 0
            for record in log.tailer():
                if record.type == number:
                    decode(record.value)
                    count += 1
            return count

        def typed_read() -> int:
            count = 0
            for _ in orders.tailer():
                count += 1
            return count

        orders.append(ORDER)
        number = log.read(log.last_position or 0).type
        works = {
            "encode and append": raw,
            "typed append": typed,
            "encode and append_many": raw_many,
            "typed append_many": typed_many,
            "read and decode": raw_read,
            "typed read": typed_read,
        }
        found = {name: nanoseconds(work) for name, work in works.items()}
    shutil.rmtree(path)
    return found


def measured_calls(folder: Path) -> dict[str, float]:
    """Measure calls of a method once, in a new log."""
    path = folder / "log"
    with commitlog.open(path, flush="none", segment_size="64MiB") as log:
        shop = commitlog.method_writer(log, Shop)

        def written() -> int:
            sold = shop.sold
            for _ in range(MESSAGES):
                sold("lamp", 3)
            return MESSAGES

        def dispatched() -> int:
            with commitlog.method_reader(log, Till()) as reader:
                return reader.run(timeout=0)

        found = {"written": nanoseconds(written), "read and dispatched": nanoseconds(dispatched)}
    shutil.rmtree(path)
    return found


def main() -> None:
    """Print a table of medians, what typed calls add, and what method calls take."""
    calls: list[dict[str, float]] = []
    sealing_rounds: list[dict[str, float]] = []
    compressing_rounds: list[dict[str, float]] = []
    rounds: dict[str, list[dict[str, float]]] = {"json": [], "msgpack": []}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for _ in range(ROUNDS):
            for codec, found in rounds.items():
                found.append(measured(codec, Path(folder)))
            calls.append(measured_calls(Path(folder)))
            sealing_rounds.append(sealing.measured(Path(folder)))
            compressing_rounds.append(compressing.measured(Path(folder)))
    for codec, found in rounds.items():
        medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
        print(codec)
        for name, took in medians.items():
            print(f"  {name:<23} {took:6.0f} ns")
        for typed, parts in (
            ("typed append", "encode and append"),
            ("typed append_many", "encode and append_many"),
            ("typed read", "read and decode"),
        ):
            more = statistics.median(each[typed] - each[parts] for each in found)
            print(f"  {typed} adds {more:.0f} ns (goal: at most {GOAL_NS})")
    print("method call")
    for name in calls[0]:
        print(f"  {name:<23} {statistics.median(each[name] for each in calls):6.0f} ns")
    both = statistics.median(sum(each.values()) for each in calls)
    print(f"  both take {both:.0f} ns (goal: at most {CALL_GOAL_NS})")
    sealing.report(sealing_rounds)
    compressing.report(compressing_rounds)


if __name__ == "__main__":
    main()
