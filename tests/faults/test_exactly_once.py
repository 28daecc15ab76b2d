"""SIGKILL at random moments of a service that reads one log and writes to another: the outputs of
each input are there once, in order.
"""

from __future__ import annotations

import random
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

import commitlog
from commitlog import CommitLog, method_reader, method_writer
from tests.faults.child import Child, Link
from tests.length import long_count

Start = Callable[..., Child]
KILLS = 12
LONG_KILLS = long_count(300)
SEGMENT = "256KiB"
_LONG = "x" * 200


class Orders(Protocol):
    def ordered(self, number: int) -> None: ...


class Events(Protocol):
    def packed(self, number: int, part: int) -> None: ...
    def billed(self, number: int, part: int, text: str) -> None: ...


class Noise(Protocol):
    def heard(self, number: int) -> None: ...


def outputs_of(number: int) -> int:
    """Return how many outputs an input has: 0 to 3, now and then a long list, which is one claim,
    and rarely one of several claims.
    """
    if number % 1009 == 0:
        return 500
    return 60 if number % 97 == 0 else number % 4


class Service:
    """Writes the outputs of each order."""

    def __init__(self, out: Events, link: Link, *, reports: bool) -> None:
        self.out = out
        self.link = link
        self.reports = reports

    def ordered(self, number: int) -> None:
        for part in range(outputs_of(number)):
            if part % 2:
                self.out.billed(number, part, _LONG)
            else:
                self.out.packed(number, part)
        if self.reports:
            self.link.say("H", index=number)


class Collector:
    """Takes the outputs."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def packed(self, number: int, part: int) -> None:
        self.found.append((number, part))

    def billed(self, number: int, part: int, text: str) -> None:
        assert text == _LONG
        self.found.append((number, part))


def opened(path: Path, *, is_pooled: bool = False) -> CommitLog:
    if not is_pooled:
        return commitlog.open(path, segment_size=SEGMENT, flush="async")
    pool = commitlog.TransientStorePool(buffers=4, buffer_size=SEGMENT, lock_memory="off")
    return commitlog.open(path, pool=pool, flush="async")


def serve(
    link: Link,
    source_path: str,
    target_path: str,
    is_pooled: bool,
    timeout: float | None = None,
) -> None:
    """Handle orders until the kill, or until none arrives."""
    source, target = opened(Path(source_path)), opened(Path(target_path), is_pooled=is_pooled)
    service = Service(method_writer(target, Events), link, reports=timeout is None)
    with (
        source,
        target,
        method_reader(source, service, name="service", after_last_written=target) as reader,
    ):
        link.say("R")
        reader.run(timeout)


def run_kills(folder: Path, numbers: random.Random, start: Start, how: str, kills: int) -> None:
    """Append orders and kill the service that handles them, `kills` times; check the outputs.

    The log of the outputs is mapped, pooled, or mapped with another writer beside the service.
    """
    is_pooled = how == "pooled"
    source_path, target_path = folder / "orders", folder / "events"
    last = 0
    with ExitStack() as stack:
        source = stack.enter_context(opened(source_path))
        orders = method_writer(source, Orders)
        noise: Noise | None = None
        if how == "beside":
            noise = method_writer(stack.enter_context(opened(target_path)), Noise)
        for turn in range(kills):
            count = numbers.randint(1, 1500)
            for _ in range(count):
                last += 1
                orders.ordered(last)
            child = start(serve, str(source_path), str(target_path), is_pooled)
            if numbers.random() < 0.2:  # perhaps before the service handles anything
                select.select([], [], [], numbers.random() * 0.03)
            else:
                child.hear(1 + numbers.randint(1, count))
            if noise is not None:
                noise.heard(turn)
            child.kill()
            child.end()
        start(serve, str(source_path), str(target_path), is_pooled, 0).join()
    assert collected(target_path) == list(expected(last))


def collected(path: Path) -> list[tuple[int, int]]:
    collector = Collector()
    with opened(path) as log:
        method_reader(log, collector).run(timeout=0)
    return collector.found


def expected(last: int) -> Iterator[tuple[int, int]]:
    for number in range(1, last + 1):
        for part in range(outputs_of(number)):
            yield number, part


@pytest.mark.parametrize("how", ["mapped", "pooled", "beside"])
def test_outputs_of_a_killed_service_are_there_once(
    tmp_path: Path, numbers: random.Random, start: Start, how: str
) -> None:
    run_kills(tmp_path, numbers, start, how, KILLS)


@pytest.mark.long
@pytest.mark.parametrize("how", ["mapped", "pooled", "beside"])
def test_outputs_are_there_once_after_hundreds_of_kills(
    tmp_path: Path, numbers: random.Random, start: Start, how: str
) -> None:
    run_kills(tmp_path, numbers, start, how, LONG_KILLS)
