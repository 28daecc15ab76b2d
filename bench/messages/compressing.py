"""What compression saves and costs: orders of about 1 KB of JSON, one by one and in lists."""

from __future__ import annotations

import datetime as dt
import gc
import random
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import commitlog
from commitlog.topics.topic_compressor import SAMPLES, Compressor, Samples

LIST = 500
LISTS = 8
GOAL_MB_S = 300
GOAL_TIMES = 4


class Line(msgspec.Struct):
    """A line of an order."""

    sku: str
    name: str
    quantity: int
    price: str


class Order(msgspec.Struct):
    """An order, some 600 bytes of JSON."""

    id: str
    customer: str
    email: str
    street: str
    town: str
    lines: list[Line]
    status: str
    changed: dt.datetime
    revision: int


def orders(count: int) -> list[Order]:
    """Return orders of 9 to 18 lines, the same ones in each round."""
    drawn = random.Random(11)
    found = []
    for number in range(count):
        lines = [line for _ in range(3) for line in order(number, drawn).lines]
        found.append(msgspec.structs.replace(order(number, drawn), lines=lines))
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


def measured(folder: Path) -> dict[str, float]:
    """Measure each case once, in a new log: MB of JSON a second, and how much smaller it gets."""
    given = orders(SAMPLES + LIST * LISTS)
    first, given = given[:SAMPLES], given[SAMPLES:]
    values = list(map(msgspec.json.Encoder().encode, given))
    total = sum(map(len, values))
    samples = Samples()
    for each in first:
        samples.add(msgspec.json.encode(each))
    compressed = Compressor(1, samples.train(1)).compress
    found = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        begin = time.thread_time_ns()
        work()
        found[name] = total / (time.thread_time_ns() - begin) * 1e3

    path = folder / "log"
    with commitlog.open(path, flush="none", segment_size="64MiB") as log:
        structs = commitlog.topic(log, Order, compress="zstd")
        encoded = commitlog.topic(log, msgspec.Raw, name="encoded", codec="json", compress="zstd")
        structs.append_many(first)
        encoded.append_many([msgspec.Raw(msgspec.json.encode(each)) for each in first])
        raw = list(map(msgspec.Raw, values))
        gc.disable()
        measure("compress alone", lambda: [compressed(value) for value in values])
        for name, topic, messages in (("objects", structs, given), ("JSON", encoded, raw)):
            measure(f"append, {name}", lambda t=topic, m=messages: [t.append(x) for x in m])  # type: ignore[misc]
            measure(
                f"append_many, {name}",
                lambda t=topic, m=messages: [  # type: ignore[misc]
                    t.append_many(m[at : at + LIST]) for at in range(0, len(m), LIST)
                ],
            )
        gc.enable()
        stats = log.stats().topics["encoded"]
        found["times smaller"] = stats.plain_bytes / stats.value_bytes
    shutil.rmtree(path)
    found["bytes"] = total / len(values)
    return found


def report(rounds: list[dict[str, float]]) -> None:
    """Print the medians of the rounds."""
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    size, times = medians.pop("bytes"), medians.pop("times smaller")
    print(
        f"compressed messages of {size:.0f} bytes of JSON, lists of {LIST}: {times:.1f} times "
        f"smaller (goal: at least {GOAL_TIMES})"
    )
    for name, rate in medians.items():
        goal = f" (goal: at least {GOAL_MB_S})" if name == "append_many, JSON" else ""
        print(f"  {name:<23} {rate:6.0f} MB/s, {size / rate * 1e3:5.0f} ns{goal}")
