"""Writing to a bus: claims, refused messages, concurrent writers, and writers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import bus
from commitlog.errors import (
    ClaimError,
    ClosedError,
    InvalidOptionError,
    MessageError,
    RecordTooLargeError,
    RecordTypeError,
)
from tests.topics.prices import PriceUpdate, Trade

# --- what is written ------------------------------------------------------------------------------


def test_failed_with_block_rolls_message_back_without_blocking(place: Path) -> None:
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


def test_value_that_ends_the_claim_changes_no_record(place: Path) -> None:
    with bus.writer(place) as writer:
        claim = writer.claim(PriceUpdate)
        update = claim.__enter__()

        class EndsTheClaim:
            def __index__(self) -> int:
                claim.__exit__(None, None, None)
                return 7

        update.price = EndsTheClaim()  # type: ignore[assignment]
        assert update.price == 7
        assert writer.log.read(claim.position).value == bytes(PriceUpdate(0, 0, 0))


def test_collected_claim_leaves_its_message_usable(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        claim = writer.claim(Trade)
        trade = claim.__enter__()
        trade.price = 4.5
        del claim
        writer.write(b"next", type=2)
    assert trade.price == 4.5
    trade.price = 5.5
    assert bytes(memoryview(trade)) == bytes(trade)  # its own bytes again
    with bus.reader(place) as reader:
        assert reader.next()
        assert reader.read() == b"next"


def test_raw_claim_is_that_of_the_log(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        with writer.claim(16, type=4) as claim:
            claim.buffer[:3] = b"abc"
            claim.truncate(3)
        assert reader.next()
        assert (reader.type, reader.read()) == (4, b"abc")
        with pytest.raises(ClaimError), writer.claim(4) as claim:
            kept = memoryview(claim.buffer)
        kept.release()


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


# --- what is refused ------------------------------------------------------------------------------


class Impostor(bus.Message, type=0):
    one: bus.int32
    two: bus.int32
    three: bus.int32


def test_second_class_of_a_type_number_is_refused(place: Path) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        for message in (PriceUpdate(1, 2, 3), Trade(1.0, b""), PriceUpdate(4, 5, 6)):
            writer.write(message)
        end = writer.log.tail_position
        with pytest.raises(MessageError, match="PriceUpdate and Impostor both have type 0"):
            writer.write(Impostor(1, 2, 3))
        with pytest.raises(MessageError, match="PriceUpdate and Impostor both have type 0"):
            writer.claim(Impostor)
        assert writer.log.tail_position == end
        assert reader.next()
        reader.read(PriceUpdate)
        with pytest.raises(MessageError, match="PriceUpdate and Impostor both have type 0"):
            reader.read(Impostor)


def test_invalid_message_is_refused_and_not_written(place: Path) -> None:
    with bus.writer(place, segment_size=65536) as writer:
        end = writer.log.tail_position
        for refused, error in (
            (lambda: writer.write("text"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(None), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(b"x", type=-1), RecordTypeError),
            (lambda: writer.write(b"x", type=1 << 32), RecordTypeError),
            (lambda: writer.write(b"x", type="1"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(PriceUpdate), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.write(PriceUpdate(1, 2, 3), type=0), MessageError),  # type: ignore[call-overload]
            (lambda: writer.write(bytes(65536)), RecordTooLargeError),
            (lambda: writer.claim(int), RecordTypeError),  # type: ignore[type-var]
            (lambda: writer.claim("12"), RecordTypeError),  # type: ignore[call-overload]
            (lambda: writer.claim(Trade, type=1), MessageError),  # type: ignore[call-overload]
            (lambda: writer.claim(65536), RecordTooLargeError),
        ):
            with pytest.raises(error):
                refused()
        assert writer.log.tail_position == end


def test_bus_with_a_pool_is_refused(place: Path) -> None:
    with (
        commitlog.TransientStorePool(buffers=1, buffer_size=65536, lock_memory="off") as pool,
        pytest.raises(InvalidOptionError, match="pool"),
    ):
        bus.writer(place, pool=pool)
    assert not place.exists()


def test_every_call_after_close_raises_closed_error(place: Path) -> None:
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
        for write in (
            lambda: writer.write(b"x"),
            lambda: writer.write(PriceUpdate(1, 2, 3)),
            lambda: writer.claim(PriceUpdate),
        ):
            with pytest.raises(ClosedError):
                write()
    assert "closed" in repr(reader) + repr(writer)


# --- several writers ------------------------------------------------------------------------------


def test_writer_continues_in_a_forked_child(place: Path, in_child: Callable[..., Any]) -> None:
    with bus.writer(place) as writer, bus.reader(place) as reader:
        writer.write(PriceUpdate(0, 1, 1))

        def child() -> int:
            position = writer.write(PriceUpdate(1, 2, 2))
            writer.close()
            return position

        in_child(child)
        writer.write(PriceUpdate(2, 3, 3))
        assert [reader.next() and reader.read(PriceUpdate).source for _ in range(3)] == [0, 1, 2]


def test_writer_shared_by_threads_keeps_each_order(place: Path) -> None:
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


def test_dead_writer_blocks_no_reader(place: Path, until: Callable[..., None]) -> None:
    script = """
import os, signal, sys
from commitlog import bus
writer = bus.writer(sys.argv[1])
writer.write(b"before")
claim = writer.claim(64).__enter__()
print("claimed", flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(place)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"claimed\n"
        with bus.reader(place) as reader, bus.writer(place) as writer:
            assert reader.next()
            writer.write(b"after")
            assert not reader.next()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            assert reader.next(timeout=60)
            assert reader.read() == b"after"
            assert not reader.next()


def test_importing_commitlog_does_not_import_the_bus() -> None:
    script = (
        "import sys, commitlog; sys.exit(any(name.startswith(('commitlog.topics', "
        "'commitlog.topics.compiled.messages', 'commitlog.bus')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
