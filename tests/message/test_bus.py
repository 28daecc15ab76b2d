"""The bus as a Mappedbus user knows it, and each of the traps that it does not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import commitlog
from commitlog import bus
from commitlog._kernel.cursors import STATE_RECOVERING
from commitlog.errors import (
    ClaimError,
    ClosedError,
    CorruptRecordError,
    DestinationTooSmallError,
    ExportedBufferError,
    InvalidOptionError,
    LogNotFoundError,
    MessageMismatchError,
    NoMessageError,
    NotALogError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    TailerInUseError,
)


class PriceUpdate(bus.Message, type=0):
    source: bus.int32
    price: bus.int32
    quantity: bus.int32


class Trade(bus.Message, type=1):
    price: bus.float64
    symbol: Annotated[bytes, 8]


class Impostor(bus.Message, type=0):
    one: bus.int32
    two: bus.int32
    three: bus.int32


def test_messages_of_several_classes_come_back_in_order(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        written = [PriceUpdate(0, 20, 40), Trade(1.5, b"EURUSD"), b"raw", b"", PriceUpdate(1, 30, 60)]
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
        for destination in (bytearray(b"x" * 12), np.full(12, 120, np.uint8), memoryview(bytearray(b"x" * 12))):
            assert reader.read(into=destination) == 10
            assert bytes(destination) == b"0123456789xx"
        for wrong in (b"x" * 12, np.zeros((12, 2), np.uint8)[:, 0], np.empty(4, object), 12, "x" * 12, int):
            with pytest.raises(RecordTypeError):
                reader.read(into=wrong)  # type: ignore[call-overload]


def test_the_type_can_be_read_twice(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"one", type=5)
        writer.write(b"two", type=6)
        assert reader.next()
        assert [reader.type, reader.type, reader.type] == [5, 5, 5]
        assert [reader.read(), reader.read()] == [b"one", b"one"]
        assert reader.next()
        assert (reader.type, reader.read(), reader.type) == (6, b"two", 6)


def test_a_message_that_is_not_read_is_passed_over_whole(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"a long one that nobody wants", type=3)
        writer.write(PriceUpdate(1, 2, 3))
        writer.write(b"last", type=4)
        assert reader.next()
        assert reader.type == 3
        assert reader.next()
        assert reader.read(PriceUpdate) == PriceUpdate(1, 2, 3)
        assert reader.next()
        assert (reader.type, reader.read()) == (4, b"last")


def test_a_destination_that_is_too_small_loses_nothing(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        position = writer.write(b"0123456789")
        assert reader.next()
        for short in (bytearray(b"x" * 9), bytearray(), np.full(9, 120, np.uint8)):
            with pytest.raises(DestinationTooSmallError, match="larger") as caught:
                reader.read(into=short)
            assert (caught.value.size, caught.value.limit, caught.value.position) == (10, len(short), position)
            assert bytes(short) == b"x" * len(short)
        assert reader.read(into=bytearray(reader.length)) == 10
        assert reader.read() == b"0123456789"


def test_a_message_of_another_class_is_not_misread(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(Trade(2.5, b"GBPUSD"))
        writer.write(b"eleven byte", type=PriceUpdate.type)
        update = PriceUpdate(7, 8, 9)
        assert reader.next()
        with pytest.raises(MessageMismatchError, match="type 1 and 16 bytes, but PriceUpdate has type 0 and 12 bytes"):
            reader.read(into=update)
        assert reader.read(Trade) == Trade(2.5, b"GBPUSD\0\0")
        assert reader.next()
        with pytest.raises(MessageMismatchError, match="11 bytes"):
            reader.read(into=update)
        with pytest.raises(MessageMismatchError):
            reader.read(PriceUpdate)
        assert reader.read() == b"eleven byte"
        writer.write(b"twelve bytes", type=5)
        assert reader.next()
        with pytest.raises(MessageMismatchError, match="type 5"):
            reader.read(into=update)
        assert update == PriceUpdate(7, 8, 9)


def test_two_classes_with_one_type_number_do_not_go_over_one_bus(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        for message in (PriceUpdate(1, 2, 3), Trade(1.0, b""), PriceUpdate(4, 5, 6)):
            writer.write(message)
        end = writer.log.tail_position
        with pytest.raises(MessageMismatchError, match="PriceUpdate and Impostor both have type 0"):
            writer.write(Impostor(1, 2, 3))
        with pytest.raises(MessageMismatchError, match="PriceUpdate and Impostor both have type 0"):
            writer.claim(Impostor)
        assert writer.log.tail_position == end
        assert reader.next()
        reader.read(PriceUpdate)
        with pytest.raises(MessageMismatchError, match="PriceUpdate and Impostor both have type 0"):
            reader.read(Impostor)


def test_a_reader_that_stands_on_nothing_says_so(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:

        def nothing_is_read() -> None:
            for ask in (reader.read, lambda: reader.type, lambda: reader.length, lambda: reader.position, lambda: reader.timestamp_ns):
                with pytest.raises(NoMessageError, match="next"):
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


def test_a_reader_never_creates_anything(place: Path) -> None:
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
def test_a_reader_waits_for_its_log_to_be_created(place: Path, turn: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(bus.reader, place, wait=30)
        with bus.writer(place) as writer:
            writer.write(b"first")
            with opening.result() as reader:
                assert reader.next(timeout=10)
                assert reader.read() == b"first"
                writer.write(b"second")
                assert reader.next(timeout=10)
                assert reader.read() == b"second"
                assert not reader.next(timeout=0.05)
                assert reader.log.cursors.shared


def test_a_reader_that_came_before_the_live_state_finds_it(place: Path) -> None:
    with bus.writer(place) as writer:
        writer.write(b"before")
    with commitlog.open(place) as log:
        cursors = log.cursors
    cursors["state"] = STATE_RECOVERING  # as a newcomer finds it while the first writer is still opening
    with bus.reader(place) as reader:
        assert not reader.log.cursors.shared
        assert reader.next()
        assert reader.has_recovered
        assert not reader.next(timeout=0.05)
        with bus.writer(place) as writer:
            writer.write(b"after")
            assert reader.next(timeout=10)
            assert reader.read() == b"after"
            assert not reader.next(timeout=0.05)
            assert reader.log.cursors.shared
            assert (reader.has_recovered, reader.log.tail_position) == (True, writer.log.tail_position)


def test_a_reader_knows_when_it_has_caught_up_with_what_was_there(place: Path) -> None:
    with bus.writer(place, segment_size=65536) as writer:
        for _ in range(3):
            writer.write(b"old")
            writer.log.roll()
        writer.write(b"old")
        with bus.reader(place) as reader, bus.reader(place, start="end") as late, bus.reader(place, visibility="flushed") as careful:
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


def test_an_empty_bus_has_been_recovered_from_the_start(place: Path) -> None:
    with bus.writer(place), bus.reader(place) as reader:
        assert reader.has_recovered


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_next_waits_as_long_as_it_is_told(place: Path, idle: Any) -> None:
    with bus.writer(place) as writer, bus.reader(place, idle=idle) as reader, ThreadPoolExecutor(1) as pool:
        assert not reader.next(timeout="5ms")
        waiting = pool.submit(reader.next, timeout=None)
        writer.write(b"came")
        assert waiting.result(timeout=10)
        assert reader.read() == b"came"
        waiting = pool.submit(reader.next, 10, idle="backoff")
        writer.write(b"too")
        assert waiting.result(timeout=10)
    for wrong in (-1, "soon", float("nan")):
        with bus.reader(place, start="end") as reader, pytest.raises(InvalidOptionError, match="timeout"):
            reader.next(timeout=wrong)
    with bus.reader(place, start="end") as reader, pytest.raises(InvalidOptionError, match="idle must be one of 'spin'"):
        reader.next(timeout=1, idle="sleep")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="idle"):
        bus.reader(place, idle=7)  # type: ignore[arg-type]


def test_two_threads_at_one_reader_are_told(place: Path, until: Callable[..., None]) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.next, timeout=None, idle="block")

        def is_told() -> bool:
            try:
                reader.next()
            except TailerInUseError:
                return True
            return False

        until(is_told)
        writer.write(b"x")
        assert waiting.result(timeout=10)


def test_after_closing_everything_says_closed(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(b"x")
        assert reader.next()
        reader.close()
        reader.close()
        for use in (reader.next, reader.read, lambda: reader.type, lambda: reader.next(timeout=1)):
            with pytest.raises(ClosedError):
                use()
        writer.close()
        writer.close()
        for write in (lambda: writer.write(b"x"), lambda: writer.write(PriceUpdate(1, 2, 3)), lambda: writer.claim(PriceUpdate)):
            with pytest.raises(ClosedError):
                write()
    assert "closed" in repr(reader) + repr(writer)


def test_a_message_outlives_its_reader(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(PriceUpdate(1, 2, 3))
        assert reader.next()
        update = reader.read(PriceUpdate)
    assert update == PriceUpdate(1, 2, 3)


def test_a_failing_with_rolls_the_message_back_and_holds_nobody_up(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        with pytest.raises(ZeroDivisionError), writer.claim(PriceUpdate) as update:
            update.price = 1 // 0
        writer.write(PriceUpdate(1, 2, 3))
        assert reader.next()
        assert reader.read(PriceUpdate) == PriceUpdate(1, 2, 3)
        claim = writer.claim(Trade)
        with claim as trade:
            trade.price = 3.5
        with pytest.raises(ClaimError, match="once"):
            claim.__enter__()
        assert writer.log.read(claim.position).value == bytes(trade)


def test_a_claim_dropped_half_way_leaves_its_message_whole(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        claim = writer.claim(Trade)
        trade = claim.__enter__()
        trade.price = 4.5
        del claim
        writer.write(b"next", type=2)
    assert trade.price == 4.5
    trade.price = 5.5
    assert bytes(memoryview(trade)) == bytes(trade)  # which are its own again
    with bus.reader(place) as reader:
        assert reader.next()
        assert reader.read() == b"next"


def test_a_raw_claim_is_the_logs_own(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        with writer.claim(16, type=4) as claim:
            claim.buffer[:3] = b"abc"
            claim.truncate(3)
        assert reader.next()
        assert (reader.type, reader.read()) == (4, b"abc")
        with pytest.raises(ExportedBufferError), writer.claim(4) as claim:
            kept = memoryview(claim.buffer)
        kept.release()


def test_what_is_no_message_is_refused_and_nothing_is_written(place: Path) -> None:
    with bus.writer(place, segment_size=65536) as writer:
        end = writer.log.tail_position
        for refused, error in (
            (lambda: writer.write("text"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(None), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(b"x", type=-1), RecordTypeError),
            (lambda: writer.write(b"x", type=1 << 32), RecordTypeError),
            (lambda: writer.write(b"x", type="1"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(PriceUpdate), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(PriceUpdate(1, 2, 3), type=0), MessageMismatchError),  # type: ignore[call-overload]
            (lambda: writer.write(bytes(65536)), RecordTooLargeError),
            (lambda: writer.claim(int), RecordTypeError),  # type: ignore[type-var]
            (lambda: writer.claim("12"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.claim(Trade, type=1), MessageMismatchError),  # type: ignore[call-overload]
            (lambda: writer.claim(65536), RecordTooLargeError),
        ):
            with pytest.raises(error):
                refused()
        assert writer.log.tail_position == end


def test_a_pool_is_refused(place: Path) -> None:
    with (
        commitlog.TransientStorePool(buffers=1, buffer_size=65536, lock_memory="off") as pool,
        pytest.raises(InvalidOptionError, match="pool"),
    ):
        bus.writer(place, pool=pool)
    assert not place.exists()


def test_sync_messages_are_durable(place: Path) -> None:
    with bus.writer(place, flush="none") as writer:
        for write in (
            lambda: writer.write(b"x", sync=True),
            lambda: writer.write(PriceUpdate(1, 2, 3), sync=True),
            lambda: writer.write(bytearray(b"x"), sync=True),
        ):
            writer.write(b"not yet")
            assert writer.log.flushed_position < writer.log.tail_position
            write()
            assert writer.log.flushed_position == writer.log.tail_position
        with writer.claim(PriceUpdate, sync=True) as update:
            update.price = 1
        assert writer.log.flushed_position == writer.log.tail_position


def test_a_writer_goes_on_in_a_forked_child(place: Path, in_child: Callable[..., Any]) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(PriceUpdate(0, 1, 1))

        def child() -> int:
            position = writer.write(PriceUpdate(1, 2, 2))
            writer.close()
            return position

        in_child(child)
        writer.write(PriceUpdate(2, 3, 3))
        assert [reader.next() and reader.read(PriceUpdate).source for _ in range(3)] == [0, 1, 2]


def test_threads_share_a_writer(place: Path) -> None:
    started = threading.Barrier(4)

    def write(source: int) -> None:
        started.wait()
        for price in range(2000):
            writer.write(PriceUpdate(source, price, 0))

    with bus.writer(place, segment_size=65536) as writer, bus.reader(place) as reader:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        expected = [0] * 4
        update = PriceUpdate.blank()
        while reader.next():
            reader.read(into=update)
            assert update.price == expected[update.source]
            expected[update.source] += 1
        assert expected == [2000] * 4


def test_damage_is_told_and_can_be_stepped_over(place: Path) -> None:
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
        with pytest.raises(NoMessageError):
            reader.read()
    with bus.reader(place, on_damage="skip") as reader:
        assert [reader.next() and reader.read()[:1] for _ in range(2)] == [b"0", b"2"]


def test_a_dead_writer_holds_nobody_up(place: Path, until: Callable[..., None]) -> None:
    script = """
import os, signal, sys
from commitlog import bus
writer = bus.writer(sys.argv[1])
writer.write(b"before")
claim = writer.claim(64).__enter__()
print("claimed", flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", script, str(place)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"claimed\n"
        with bus.reader(place) as reader, bus.writer(place) as writer:
            assert reader.next()
            writer.write(b"after")
            assert not reader.next()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            assert reader.next(timeout=10)
            assert reader.read() == b"after"
            assert not reader.next()


def test_a_reader_cannot_write(place: Path) -> None:
    with bus.writer(place), bus.reader(place) as reader, pytest.raises(ReadOnlyError):
        reader.log.append(b"x")


def test_importing_commitlog_does_not_import_the_bus() -> None:
    script = (
        "import sys, commitlog; sys.exit(any('message' in name or name == 'commitlog.bus' for name in sys.modules if 'commitlog' in name))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
