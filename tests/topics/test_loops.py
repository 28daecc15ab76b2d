"""Loops over a reader: objects of the reader's classes, or bytes, until the end or as they come."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import bus
from commitlog.errors import ClosedError, InvalidOptionError, MessageError
from tests.topics.prices import PriceUpdate, Trade

PATIENCE_S = 60.0


def test_loop_without_classes_gives_every_message_as_bytes(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"raw", type=9)
        writer.write(PriceUpdate(1, 2, 3))
        assert list(reader) == [b"raw", bytes(PriceUpdate(1, 2, 3))]
        assert list(reader) == []
        writer.write(b"more")
        assert list(reader) == [b"more"]


def test_loop_dispatches_by_class_and_skips_other_types(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place, [PriceUpdate, Trade]) as reader:
        positions = [
            writer.write(PriceUpdate(1, 20, 40)),
            writer.write(b"raw", type=9),
            writer.write(Trade(2.5, b"GBPUSD\0\0")),
        ]
        found: list[Any] = []
        for message in reader:
            assert reader.position in positions
            match message:
                case PriceUpdate(source, price):
                    found.append((reader.type, source, price))
                case Trade(symbol=symbol):
                    found.append((reader.type, symbol))
        assert found == [(0, 1, 20), (1, b"GBPUSD\0\0")]
        assert reader.has_recovered


def test_each_message_of_a_loop_is_an_object_of_its_own(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place, [PriceUpdate]) as reader:
        written = [PriceUpdate(number, 0, 0) for number in range(100)]
        for message in written:
            writer.write(message)
        assert list(reader) == written


def test_follow_gives_messages_as_they_come(place: Path) -> None:
    with (
        bus.writer(place) as writer,
        bus.reader(place, [Trade]) as reader,
        ThreadPoolExecutor(1) as pool,
    ):
        messages = reader.follow(PATIENCE_S, idle="block")
        for number in range(3):
            waiting = pool.submit(next, messages)
            writer.write(b"passed over", type=7)
            writer.write(Trade(number, b""))
            assert waiting.result(PATIENCE_S).price == number
        assert list(reader.follow("5ms")) == []


def test_follow_ends_though_other_messages_come(place: Path) -> None:
    done = threading.Event()

    def write() -> None:
        with bus.writer(place) as writer:
            while not done.wait(0.001):
                writer.write(b"other", type=7)

    bus.writer(place).close()
    with bus.reader(place, [Trade]) as reader, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            assert list(reader.follow("50ms")) == []
        finally:
            done.set()
        writing.result(PATIENCE_S)


def test_signal_ends_a_loop_that_skips_messages(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place, [Trade]) as reader:
        writer.log.append_array(np.zeros((200_000, 8), np.uint8))

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # where it comes is not known
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                next(iter(reader), None)
                signal.pause()
        finally:
            signal.signal(signal.SIGALRM, before)
        assert reader.next()  # the loop had not passed all messages


def test_message_of_another_size_is_refused_and_passed(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place, [PriceUpdate]) as reader:
        writer.write(b"eleven byte", type=PriceUpdate.type)
        writer.write(PriceUpdate(1, 2, 3))
        messages = iter(reader)
        with pytest.raises(MessageError, match="11 bytes, but PriceUpdate has type 0 and 12 bytes"):
            next(messages)
        assert reader.read() == b"eleven byte"
        assert next(messages) == PriceUpdate(1, 2, 3)


def test_closed_reader_refuses_a_loop(place: Path) -> None:
    bus.writer(place).close()
    reader = bus.reader(place)
    messages = iter(reader)
    reader.close()
    for each in (messages, iter(reader)):
        with pytest.raises(ClosedError, match="closed"):
            next(each)


@pytest.mark.parametrize(
    "classes", [[], [int], [bus.Message], ["Trade"], [Trade(1.0, b"")]], ids=str
)
def test_reader_of_no_message_class_is_refused(place: Path, classes: Any) -> None:
    bus.writer(place).close()
    with pytest.raises(InvalidOptionError, match="classes="):
        bus.reader(place, classes)


def test_reader_of_two_classes_with_one_type_is_refused(place: Path) -> None:
    class Other(bus.Message, type=Trade.type):
        one: bus.int8

    bus.writer(place).close()
    with pytest.raises(MessageError, match="Trade and Other both have type 1"):
        bus.reader(place, [Trade, Other])
