"""Reads through the C API, without the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from commitlog import CommitLog
from commitlog.errors import (
    ClosedError,
    CorruptRecordError,
    FencedError,
    ForkedError,
    InUseError,
    InvalidOptionError,
)
from commitlog.log.parts import parts_of
from tests.setups import SEGMENT, Logs, Setup

NUMBERS = 8_000  # several segments of 64 KiB


def read_all(reader: Any) -> list[bytes]:
    found = []
    while (record := reader.next()) is not None:
        found.append(record[4])
    return found


def numbered(log: CommitLog, count: int = NUMBERS) -> list[bytes]:
    """Values that fill several segments, appended and committed."""
    made = [b"%d" % number for number in range(count)]
    log.append_many(made, sync=False)
    log.commit()
    return made


def test_native_reader_gets_the_records_that_python_reads(
    probe: Any, setup: Setup, logs: Logs
) -> None:
    log = logs.open_as(setup)
    log.append(b"plain")
    log.append(b"keyed", key=b"k", type=7)
    log.append(b"", key=b"")
    log.commit()
    expected = [
        (record.position, record.timestamp_ns, record.type, record.key, record.value)
        for record in log.tailer()
    ]
    reader = probe.Reader(log.tailer(visibility="committed"))
    assert [reader.next() for _ in range(4)] == [*expected, None]


@pytest.mark.parametrize("visibility", ["committed", "flushed"])
def test_reader_passes_the_end_of_segments(
    probe: Any, setup: Setup, logs: Logs, visibility: Any
) -> None:
    log = logs.open_as(setup)
    made = numbered(log)
    log.flush()
    assert read_all(probe.Reader(log.tailer(visibility=visibility))) == made


def test_reader_of_another_process_passes_the_end_of_segments(probe: Any, logs: Logs) -> None:
    made = numbered(logs.open())
    assert read_all(probe.Reader(logs.open(mode="r").tailer())) == made


def test_reader_of_a_log_that_was_cut_is_fenced(probe: Any, logs: Logs) -> None:
    with logs.open() as writer:
        made = numbered(writer, 10)
    log = logs.open(mode="r")
    reader = probe.Reader(log.tailer())
    assert read_all(reader) == made
    parts_of(log).engine.cursors["cut"] = log.committed_position + 1  # as a cut leaves it
    for call in (reader.next, lambda: reader.wait(60)):
        with pytest.raises(FencedError, match="open the log again"):
            call()


def test_python_reads_beside_an_open_reader_are_refused(probe: Any, logs: Logs) -> None:
    log = logs.open()
    numbered(log, 3)
    tailer = log.tailer()
    reader = probe.Reader(tailer)
    for refused in (tailer.read, lambda: tailer.seek("first"), lambda: probe.Reader(tailer)):
        with pytest.raises(InUseError):
            refused()
    assert reader.next()[4] == b"0"
    reader.close()
    record = tailer.read()
    assert record is not None
    assert record.value == b"1"


def test_uncommitted_records_of_a_pool_are_refused(probe: Any, logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    with pytest.raises(InvalidOptionError, match="visibility"):
        probe.Reader(log.tailer(visibility="appended"))


def test_backward_tailer_is_refused(probe: Any, logs: Logs) -> None:
    with pytest.raises(InvalidOptionError, match="forward"):
        probe.Reader(logs.open().tailer(direction="backward"))


@pytest.mark.parametrize("what", [None, 3, b"tailer"])
def test_other_objects_are_refused(probe: Any, what: object) -> None:
    with pytest.raises(TypeError):
        probe.Reader(what)


def test_named_reader_saves_the_position_of_its_last_record(probe: Any, logs: Logs) -> None:
    log = logs.open()
    numbered(log, 50)
    with log.tailer(name="native") as tailer:
        reader = probe.Reader(tailer)
        for _ in range(40):
            reader.next()
        fortieth = next(iter(log.tailers())).position
        assert log.read(fortieth).value == b"39"
        assert read_all(reader) == [b"%d" % number for number in range(40, 50)]
        reader.close()
    with log.tailer(name="native") as tailer:
        assert tailer.read() is None


def damaged(logs: Logs) -> int:
    """Make a log of a damaged record and a whole one; return the position of the first."""
    log = logs.open()
    position = log.append(b"damaged")
    log.append(b"whole")
    log.close()
    segment = logs.path / "log" / f"{0:020d}.seg"
    content = bytearray(segment.read_bytes())
    content[position + 17] ^= 1
    segment.write_bytes(content)
    return position


def test_damage_raises_with_its_position(probe: Any, logs: Logs) -> None:
    position = damaged(logs)
    reader = probe.Reader(logs.open(mode="r").tailer())
    with pytest.raises(CorruptRecordError) as raised:
        reader.next()
    assert raised.value.position == position


def test_skipped_damage_leaves_the_other_records(probe: Any, logs: Logs) -> None:
    damaged(logs)
    reader = probe.Reader(logs.open(mode="r").tailer(on_damage="skip"))
    assert read_all(reader) == [b"whole"]


def test_wait_ends_with_the_next_record(probe: Any, setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    reader = probe.Reader(log.tailer(visibility="committed"))
    waiting = threading.Event()
    found: list[bytes] = []

    def read() -> None:
        waiting.set()
        while (record := reader.next()) is None:
            reader.wait(60)
        found.append(record[4])

    thread = threading.Thread(target=read)
    thread.start()
    waiting.wait()
    log.append(b"x")
    log.commit()
    thread.join()
    assert found == [b"x"]


def test_wait_without_a_record_ends_at_its_timeout(probe: Any, logs: Logs) -> None:
    reader = probe.Reader(logs.open().tailer())
    assert reader.next() is None
    while reader.wait(0.001):
        assert reader.next() is None


def test_read_of_a_closed_log_raises(probe: Any, logs: Logs) -> None:
    log = logs.open()
    numbered(log, 3)
    reader = probe.Reader(log.tailer())
    reader.next()
    log.close()
    assert reader.wait(60)
    with pytest.raises(ClosedError):
        reader.next()


def test_closed_named_tailer_raises(probe: Any, logs: Logs) -> None:
    log = logs.open()
    numbered(log, 3)
    tailer = log.tailer(name="native")
    reader = probe.Reader(tailer)
    reader.next()
    tailer.close()
    with pytest.raises(ClosedError):
        reader.next()


def test_child_of_a_fork_is_refused(
    probe: Any, logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open()
    numbered(log, 3)
    reader = probe.Reader(log.tailer())

    def child() -> bool:
        try:
            reader.next()
        except ForkedError:
            return True
        return False

    assert in_child(child)
    assert reader.next()[4] == b"0"


def test_reader_follows_a_native_appender_in_another_thread(probe: Any, logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    appender = probe.Appender(log)
    reader = probe.Reader(log.tailer(visibility="committed"))
    thread = threading.Thread(target=lambda: appender.append_numbers(0, NUMBERS))
    thread.start()
    seen = []
    while len(seen) < NUMBERS:
        record = reader.next()
        if record is None:
            assert reader.wait(60)
        else:
            seen.append(int.from_bytes(record[4], "little"))
    thread.join()
    assert seen == list(range(NUMBERS))
    assert log.tail_position > 2 * SEGMENT
