"""Every byte that writers put on a bus is read back: raw bytes, objects, and many writers at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commitlog import bus
from tests.host import Hosted, host_of
from tests.topics.integrity import Checked, raw

PATIENCE_S = 60.0
# Messages of each writer: few in every run, many in the long form, which meets rare events.
COUNTS = [pytest.param(2_000, id="short"), pytest.param(300_000, id="long", marks=pytest.mark.long)]


@contextmanager
def writers(place: Path, kind: str, sources: int, count: int) -> Iterator[None]:
    """Run `sources` writer processes, which must all succeed."""
    host = host_of(("tests.topics.integrity",))
    running = [
        Hosted(host, "tests.topics.integrity:write", [str(place), kind, source, count])
        for source in range(sources)
    ]
    try:
        yield
        for process in running:
            assert process.wait(PATIENCE_S) == 0
    finally:
        for process in running:
            process.kill()
            process.wait()


def read_all(
    reader: bus.BusReader, sources: int, count: int, check: Callable[[int], tuple[int, int]]
) -> None:
    """Read the messages of all writers, each in its writer's order; `check` reads one and returns
    its source and number.
    """
    expected = [0] * sources
    for _ in range(sources * count):
        assert reader.next(timeout=PATIENCE_S)
        source, number = check(reader.type)
        assert number == expected[source]
        expected[source] += 1
    assert expected == [count] * sources
    assert not reader.next()
    assert reader.has_recovered


def check_raw(reader: bus.BusReader) -> Callable[[int], tuple[int, int]]:
    buffer = bytearray(300)

    def check(kind: int) -> tuple[int, int]:
        buffer[:] = b"\xa5" * len(buffer)
        length = reader.read(into=buffer)
        number = int.from_bytes(buffer[1:5], "little")
        assert bytes(buffer) == raw(kind, number).ljust(len(buffer), b"\xa5")
        assert length == reader.length == len(reader.read())
        return kind, number

    return check


def check_object(reader: bus.BusReader) -> Callable[[int], tuple[int, int]]:
    message, wanted = Checked.blank(), Checked.blank()

    def check(kind: int) -> tuple[int, int]:
        assert kind == Checked.type
        reader.read(into=message)
        assert message == wanted.fill(message.source, message.number)
        assert bytes(message) == bytes(wanted)
        return message.source, message.number

    return check


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("sources", [1, 4], ids=["one-writer", "many-writers"])
def test_raw_messages_are_read_as_written(place: Path, sources: int, count: int) -> None:
    with writers(place, "raw", sources, count), bus.reader(place, wait=PATIENCE_S) as reader:
        read_all(reader, sources, count, check_raw(reader))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("kind", "sources"), [("objects", 1), ("claims", 1), ("objects", 4)])
def test_message_objects_are_read_as_written(
    place: Path, kind: str, sources: int, count: int
) -> None:
    with writers(place, kind, sources, count), bus.reader(place, wait=PATIENCE_S) as reader:
        read_all(reader, sources, count, check_object(reader))


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_live_and_late_readers_see_the_same_messages(place: Path, idle: Any) -> None:
    seen = []
    with writers(place, "raw", 1, 1000), bus.reader(place, wait=PATIENCE_S, idle=idle) as first:
        for _ in range(1000):
            assert first.next(timeout=PATIENCE_S)
            seen.append((first.position, first.type, first.read()))
    with bus.reader(place) as late:
        again = []
        while late.next():
            again.append((late.position, late.type, late.read()))
    assert again == seen
