"""Reading a bus: message classes, the reader's position, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import bus
from commitlog._kernel.memory import STATE_RECOVERING
from commitlog.errors import (
    CorruptRecordError,
    InUseError,
    InvalidOptionError,
    LogNotFoundError,
    MessageError,
    NotALogError,
    PositionError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
)
from commitlog.log.parts import parts_of
from commitlog.segment import cursors_file
from tests.topics.prices import PriceUpdate, Trade

# --- reading messages -----------------------------------------------------------------------------


def test_messages_of_several_classes_are_read_in_order(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        written = [
            PriceUpdate(0, 20, 40),
            Trade(1.5, b"EURUSD"),
            b"raw",
            b"",
            PriceUpdate(1, 30, 60),
        ]
        for message in written[:2]:
            writer.write(message)
        writer.write(b"raw", type=9)
        writer.write(bytearray(), type=9)
        with writer.claim(PriceUpdate) as update:
            update.source, update.price, update.quantity = 1, 30, 60
        found: list[Any] = []
        price, trade = PriceUpdate.blank(), Trade.blank()
        while reader.next():
            if reader.type == PriceUpdate.type:
                assert reader.read(into=price) is price
                found.append(PriceUpdate(price.source, price.price, price.quantity))
            elif reader.type == Trade.type:
                found.append(reader.read(Trade))
                assert reader.read(trade) == found[-1]
            else:
                found.append(reader.read())
        written[1] = Trade(1.5, b"EURUSD\0\0")
        assert found == written


def test_raw_messages_are_read_as_bytes_or_into_a_buffer(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"0123456789")
        assert reader.next()
        assert (reader.type, reader.length) == (0, 10)
        assert reader.read() == b"0123456789"
        for destination in (
            bytearray(b"x" * 12),
            np.full(12, 120, np.uint8),
            memoryview(bytearray(b"x" * 12)),
        ):
            assert reader.read(into=destination) == 10
            assert bytes(destination) == b"0123456789xx"
        for wrong in (
            b"x" * 12,
            np.zeros((12, 2), np.uint8)[:, 0],
            np.empty(4, object),
            12,
            "x" * 12,
            int,
        ):
            with pytest.raises(RecordTypeError):
                reader.read(into=wrong)  # type: ignore[call-overload]


def test_type_and_message_can_be_read_twice(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"one", type=5)
        writer.write(b"two", type=6)
        assert reader.next()
        assert [reader.type, reader.type, reader.type] == [5, 5, 5]
        assert [reader.read(), reader.read()] == [b"one", b"one"]
        assert reader.next()
        assert (reader.type, reader.read(), reader.type) == (6, b"two", 6)


def test_unread_message_is_skipped_completely(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"a long one that no reader wants", type=3)
        writer.write(PriceUpdate(1, 2, 3))
        writer.write(b"last", type=4)
        assert reader.next()
        assert reader.type == 3
        assert reader.next()
        assert reader.read(PriceUpdate) == PriceUpdate(1, 2, 3)
        assert reader.next()
        assert (reader.type, reader.read()) == (4, b"last")


def test_destination_too_small_keeps_the_message(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        position = writer.write(b"0123456789")
        assert reader.next()
        for short in (bytearray(b"x" * 9), bytearray(), np.full(9, 120, np.uint8)):
            with pytest.raises(RecordTooLargeError, match="larger") as caught:
                reader.read(into=short)
            assert (caught.value.size, caught.value.limit, caught.value.position) == (
                10,
                len(short),
                position,
            )
            assert bytes(short) == b"x" * len(short)
        assert reader.read(into=bytearray(reader.length)) == 10
        assert reader.read() == b"0123456789"


def test_message_of_another_class_is_refused(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(Trade(2.5, b"GBPUSD"))
        writer.write(b"eleven byte", type=PriceUpdate.type)
        update = PriceUpdate(7, 8, 9)
        assert reader.next()
        with pytest.raises(
            MessageError, match="type 1 and 16 bytes, but PriceUpdate has type 0 and 12 bytes"
        ):
            reader.read(into=update)
        assert reader.read(Trade) == Trade(2.5, b"GBPUSD\0\0")
        assert reader.next()
        with pytest.raises(MessageError, match="11 bytes"):
            reader.read(into=update)
        with pytest.raises(MessageError):
            reader.read(PriceUpdate)
        assert reader.read() == b"eleven byte"
        writer.write(b"twelve bytes", type=5)
        assert reader.next()
        with pytest.raises(MessageError, match="type 5"):
            reader.read(into=update)
        assert update == PriceUpdate(7, 8, 9)


def test_message_stays_valid_after_its_reader_is_closed(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(PriceUpdate(1, 2, 3))
        assert reader.next()
        update = reader.read(PriceUpdate)
    assert update == PriceUpdate(1, 2, 3)


# --- the reader's position ------------------------------------------------------------------------


def test_reader_without_a_current_message_raises(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:

        def nothing_is_read() -> None:
            for ask in (
                reader.read,
                lambda: reader.type,
                lambda: reader.length,
                lambda: reader.position,
                lambda: reader.timestamp_ns,
            ):
                with pytest.raises(PositionError, match="next"):
                    ask()

        nothing_is_read()
        assert not reader.next()
        nothing_is_read()
        position = writer.write(b"x")
        nothing_is_read()
        assert reader.next()
        assert (reader.read(), reader.position) == (b"x", position)
        assert abs(reader.timestamp_ns - time.time_ns()) < 60e9
        assert not reader.next()
        nothing_is_read()


def test_has_recovered_is_set_once_reader_passes_old_records(place: Path) -> None:
    with bus.writer(place, segment_size=65536) as writer:
        for _ in range(3):
            writer.write(b"old")
            writer.log.roll()
        writer.write(b"old")
        with (
            bus.reader(place) as reader,
            bus.reader(place, start="end") as late,
            bus.reader(place, visibility="flushed") as careful,
        ):
            assert not reader.has_recovered
            assert late.has_recovered
            writer.write(b"new")
            seen = []
            while reader.next():
                seen.append((reader.read(), reader.has_recovered))
            assert seen == [(b"old", False)] * 3 + [(b"old", True), (b"new", True)]
            assert late.next()
            assert late.read() == b"new"
            writer.log.flush()
            assert [careful.next() for _ in range(6)] == [True] * 5 + [False]
            assert careful.has_recovered


def test_has_recovered_is_set_on_an_empty_bus(place: Path) -> None:
    with bus.writer(place), bus.reader(place) as reader:
        assert reader.has_recovered


def test_damage_is_raised_or_skipped(place: Path) -> None:
    with bus.writer(place, segment_size=65536) as writer:
        positions = [writer.write(b"%d" % index * 10) for index in range(3)]
    with open(place / f"{0:020d}.seg", "r+b") as file:
        file.seek(positions[1] + 20)
        file.write(b"!")
    with bus.reader(place) as reader:
        assert reader.next()
        with pytest.raises(CorruptRecordError) as caught:
            reader.next()
        assert caught.value.position == positions[1]
        with pytest.raises(PositionError):
            reader.read()
    with bus.reader(place, on_damage="skip") as reader:
        assert [reader.next() and reader.read()[:1] for _ in range(2)] == [b"0", b"2"]


def test_reader_cannot_write(place: Path) -> None:
    with bus.writer(place), bus.reader(place) as reader, pytest.raises(ReadOnlyError):
        reader.log.append(b"x")


# --- waiting --------------------------------------------------------------------------------------


def test_reader_never_creates_a_file(place: Path) -> None:
    with pytest.raises(LogNotFoundError):
        bus.reader(place)
    with pytest.raises(LogNotFoundError):
        bus.reader(place, wait="20ms")
    assert not place.exists()
    place.mkdir()
    with pytest.raises(NotALogError):
        bus.reader(place, wait="20ms")
    assert list(place.iterdir()) == []
    place.rmdir()
    place.write_bytes(b"a file")
    started = time.monotonic()
    with pytest.raises(NotALogError):
        bus.reader(place, wait=60)
    assert time.monotonic() - started < 30
    assert place.read_bytes() == b"a file"


@pytest.mark.parametrize("turn", range(3))
def test_reader_waits_for_the_creation_of_its_log(place: Path, turn: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(bus.reader, place, wait=30)
        with bus.writer(place) as writer:
            writer.write(b"first")
            with opening.result() as reader:
                assert reader.next(timeout=60)
                assert reader.read() == b"first"
                writer.write(b"second")
                assert reader.next(timeout=60)
                assert reader.read() == b"second"
                assert not reader.next(timeout=0.05)
                assert parts_of(reader.log).engine.cursors.shared


def test_reader_opened_before_the_cursors_adopts_them(place: Path) -> None:
    with bus.writer(place) as writer:
        writer.write(b"before")
    with commitlog.open(place) as log:
        cursors = cursors_file.open_writable(parts_of(log).directory.fd, log.identity).cells
    # The state in which a newcomer finds the log while the first writer opens it.
    cursors["state"] = STATE_RECOVERING
    with bus.reader(place) as reader:
        assert not parts_of(reader.log).engine.cursors.shared
        assert reader.next()
        assert reader.has_recovered
        assert not reader.next(timeout=0.05)
        with bus.writer(place) as writer:
            writer.write(b"after")
            assert reader.next(timeout=60)
            assert reader.read() == b"after"
            assert not reader.next(timeout=0.05)
            assert parts_of(reader.log).engine.cursors.shared
            assert (reader.has_recovered, reader.log.tail_position) == (
                True,
                writer.log.tail_position,
            )


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_next_waits_up_to_its_timeout(place: Path, idle: Any) -> None:
    with (
        bus.writer(place) as writer,
        bus.reader(place, idle=idle) as reader,
        ThreadPoolExecutor(1) as pool,
    ):
        assert not reader.next(timeout="5ms")
        waiting = pool.submit(reader.next, timeout=None)
        writer.write(b"came")
        assert waiting.result(timeout=60)
        assert reader.read() == b"came"
        waiting = pool.submit(reader.next, 10, idle="backoff")
        writer.write(b"too")
        assert waiting.result(timeout=60)
    for wrong in (-1, "soon", float("nan")):
        with (
            bus.reader(place, start="end") as reader,
            pytest.raises(InvalidOptionError, match="timeout"),
        ):
            reader.next(timeout=wrong)
    with (
        bus.reader(place, start="end") as reader,
        pytest.raises(InvalidOptionError, match="idle must be one of 'spin'"),
    ):
        reader.next(timeout=1, idle="sleep")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="idle"):
        bus.reader(place, idle=7)  # type: ignore[arg-type]


def test_reader_in_use_refuses_a_second_thread(place: Path, until: Callable[..., None]) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.next, timeout=None, idle="block")

        def is_told() -> bool:
            try:
                reader.next()
            except InUseError:
                return True
            return False

        until(is_told)
        writer.write(b"x")
        assert waiting.result(timeout=60)
