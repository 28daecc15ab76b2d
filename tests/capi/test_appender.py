"""Appends through the C API, without the interpreter's lock."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import (
    ClaimError,
    ClosedError,
    ForkedError,
    InUseError,
    InvalidOptionError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    RolledBackError,
    TailerLagError,
)
from tests.base.test_descriptor import held_in
from tests.setups import LARGEST_VALUE, SEGMENT, Logs, Setup

NUMBERS = 20_000  # several segments of 64 KiB


def values(log: CommitLog) -> list[bytes]:
    if log.mode != "r":
        log.commit()
    with log.tailer() as tailer:
        return [record.value for record in tailer]


def test_records_with_headers_are_read_as_they_were_appended(
    probe: Any, setup: Setup, logs: Logs
) -> None:
    log = logs.open_as(setup)
    headers = {"trace": b"00-ab", "empty": b""}
    appender = probe.Appender(log)
    positions = [
        appender.append_named(b"named", headers, key=b"k", type=7, timestamp_ns=123),
        appender.append_named(b"plain", None),
        *(appender.append_named(b"x" * 1000, headers) for _ in range(200)),  # several segments
        appender.append(b"last"),
    ]
    for wrong, error in (
        ({"": b"x"}, InvalidOptionError),
        ({"a": 1}, RecordTypeError),
        ({"a": b"x" * (64 << 10)}, RecordTooLargeError),
        ({"a": b"x" * (60 << 10)}, RecordTooLargeError),  # with the value
    ):
        with pytest.raises(error):
            appender.append_named(b"x" * LARGEST_VALUE, wrong)
    with pytest.raises(InUseError):
        log.append(b"python", headers=headers)
    appender.close()
    log.append(b"python", headers=headers)
    log.commit()
    found = list(log.tailer(start="first"))
    assert [record.position for record in found[:-1]] == positions
    assert (found[0].key, found[0].type, found[0].timestamp_ns) == (b"k", 7, 123)
    named = [record.headers for record in found]
    assert named == [headers, {}, *[headers] * 200, {}, headers]
    reader = probe.Reader(log.tailer(start="first", visibility="committed"))
    read = []
    while reader.next() is not None:
        read.append(reader.headers())
    assert read == named


def test_records_are_read_as_they_were_appended(probe: Any, setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    positions = [
        appender.append(b"plain"),
        appender.append(b"keyed", key=b"k", type=7, timestamp_ns=123),
        appender.append(b"", key=b""),
        appender.append(b"x" * LARGEST_VALUE),
    ]
    appender.close()
    log.commit()
    found = list(log.tailer())
    assert [record.position for record in found] == positions
    assert [(record.key, record.type) for record in found] == [
        (None, 0),
        (b"k", 7),
        (b"", 0),
        (None, 0),
    ]
    assert [len(record.value) for record in found] == [5, 5, 0, LARGEST_VALUE]
    assert found[1].timestamp_ns == 123
    assert found[0].timestamp_ns > 10**18


@pytest.mark.parametrize("buffers", [1, 3])
def test_pooled_appends_pass_the_end_of_segments(probe: Any, logs: Logs, buffers: int) -> None:
    log = logs.open(pool=logs.pool(buffers=buffers))
    assert probe.Appender(log).append_numbers(0, NUMBERS) == (NUMBERS, None)
    assert [struct.unpack("<Q", value)[0] for value in values(log)] == list(range(NUMBERS))


def test_mapped_appends_pass_the_end_of_segments(probe: Any, logs: Logs) -> None:
    log = logs.open()
    assert probe.Appender(log).append_numbers(0, NUMBERS) == (NUMBERS, None)
    assert [struct.unpack("<Q", value)[0] for value in values(log)] == list(range(NUMBERS))


def test_appends_of_several_handles_are_all_kept(probe: Any, logs: Logs) -> None:
    """Each thread has an appender of its own on a mapped log."""
    opened = [logs.open() for _ in range(3)]
    results = []

    def append(number: int) -> None:
        appender = probe.Appender(opened[number])
        results.append(appender.append_numbers(number * NUMBERS, NUMBERS))
        appender.close()

    threads = [threading.Thread(target=append, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(NUMBERS, None)] * 3
    found = [struct.unpack("<Q", value)[0] for value in values(opened[0])]
    assert sorted(found) == list(range(3 * NUMBERS))
    for number in range(3):
        own = [one for one in found if one // NUMBERS == number]
        assert own == sorted(own)


APPENDS: dict[str, Callable[[CommitLog], Any]] = {
    "append": lambda log: log.append(b"x"),
    "append_key": lambda log: log.append(b"x", key=b"k"),
    "append_many": lambda log: log.append_many([b"x", b"y"]),
    "append_array": lambda log: log.append_array(np.zeros((2, 8), dtype=np.uint8)),
    "append_async": lambda log: asyncio.run(log.append_async(b"x")),
    "claim": lambda log: log.claim(8),
}


@pytest.mark.parametrize("how", APPENDS)
def test_python_appends_beside_an_open_appender_are_refused(
    probe: Any, setup: Setup, logs: Logs, how: str
) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    with pytest.raises(InUseError):
        APPENDS[how](log)
    appender.append(b"native")
    appender.close()
    log.append(b"python", sync=False)
    assert values(log) == [b"native", b"python"]


def test_second_appender_of_a_handle_is_refused(probe: Any, logs: Logs) -> None:
    log = logs.open()
    appender = probe.Appender(log)
    with pytest.raises(InUseError):
        probe.Appender(log)
    appender.close()
    probe.Appender(log).append(b"x")


def test_value_above_the_largest_is_refused(probe: Any, logs: Logs) -> None:
    log = logs.open()
    appender = probe.Appender(log)
    assert log.largest_value == LARGEST_VALUE
    with pytest.raises(RecordTooLargeError, match=str(LARGEST_VALUE + 17)):
        appender.append(b"x" * (LARGEST_VALUE + 1))
    assert values(log) == []


def test_reader_is_refused(probe: Any, logs: Logs) -> None:
    logs.open().append(b"x")
    with pytest.raises(ReadOnlyError):
        probe.Appender(logs.open(mode="r"))


@pytest.mark.parametrize("what", [None, 3, b"log"])
def test_other_objects_are_refused(probe: Any, what: object) -> None:
    with pytest.raises(TypeError):
        probe.Appender(what)


def test_append_to_a_closed_log_raises(probe: Any, setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    appender.append(b"x")
    log.close()
    with pytest.raises(ClosedError):
        appender.append(b"y")
    with pytest.raises(ClosedError):
        appender.append_named(b"y", {"a": b"b"})
    appender.close()
    assert values(logs.open()) == [b"x"]


def test_close_keeps_all_that_a_native_thread_appended(
    probe: Any, setup: Setup, logs: Logs, until: Callable[..., None]
) -> None:
    """`close` comes while the thread appends: what was appended before its error is in the log."""
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(appender.append_numbers(0, 100_000_000))
    )
    thread.start()
    until(lambda: log.tail_position > 3 * SEGMENT)
    log.close()
    thread.join()
    appender.close()
    count, error = results[0]
    assert isinstance(error, ClosedError)
    assert logs.open().count() == count


def test_rolls_beside_a_native_thread_lose_nothing(
    probe: Any, setup: Setup, logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(appender.append_numbers(0, NUMBERS)))
    thread.start()
    while thread.is_alive():
        log.roll()
    thread.join()
    assert results == [(NUMBERS, None)]
    assert [struct.unpack("<Q", value)[0] for value in values(log)] == list(range(NUMBERS))


def test_append_after_the_end_of_a_cycle_rolls(probe: Any, logs: Logs, until: Any) -> None:
    log = logs.open(roll_cycle="50ms")
    appender = probe.Appender(log)
    first = appender.append(b"one", timestamp_ns=5)

    def next_cycle() -> bool:
        return appender.append(b"two") // SEGMENT > first // SEGMENT

    until(next_cycle)
    assert values(log)[0] == b"one"


# --- claims -----------------------------------------------------------------------------------


def test_claim_is_read_after_it_is_published(probe: Any, setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    position = appender.claim(10, key=b"k", type=3)
    log.commit()
    assert log.count(None, log.committed_position) == 0
    appender.publish(b"short")
    log.commit()
    record = log.read(position)
    assert (record.key, record.type, record.value) == (b"k", 3, b"short")


def test_abandoned_claim_leaves_no_record(probe: Any, setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    appender = probe.Appender(log)
    appender.claim(10)
    appender.abandon()
    appender.abandon()
    appender.append(b"next")
    assert values(log) == [b"next"]


def test_publish_of_more_than_was_claimed_raises(probe: Any, logs: Logs) -> None:
    log = logs.open()
    appender = probe.Appender(log)
    appender.claim(4)
    with pytest.raises(ClaimError):
        appender.publish(b"12345", size=5)
    appender.publish(b"1234")
    with pytest.raises(ClaimError):
        appender.publish(b"again")
    assert values(log) == [b"1234"]


def test_claim_that_others_rolled_back_raises(probe: Any, logs: Logs) -> None:
    log = logs.open(claim_timeout=0.05)
    other = logs.open(claim_timeout=0.05)
    appender = probe.Appender(log)
    appender.claim(4)
    other.append(b"behind")
    assert next(other.tailer().values(timeout=60)) == b"behind"
    with pytest.raises(RolledBackError):
        appender.publish(b"late")
    assert values(log) == [b"behind"]


# --- required tailers, forks --------------------------------------------------------------------


def append_until_refused(appender: Any) -> int:
    """How many records it appends until one is dropped."""
    appended = 0
    while appender.append(b"x" * 1000) is not None:
        appended += 1
        assert appended < 1000
    return appended


def test_lag_of_a_required_tailer_drops_appends(probe: Any, logs: Logs) -> None:
    log = logs.open(on_lag="drop")
    with log.tailer(name="slow", required=True, max_lag="16KiB"):
        appended = append_until_refused(probe.Appender(log))
        assert 0 < appended == log.count()


def test_lag_of_a_required_tailer_raises(probe: Any, logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    with log.tailer(name="slow", required=True, max_lag="16KiB") as tailer:
        appender = probe.Appender(log)
        with pytest.raises(TailerLagError):
            append_until_refused(appender)
        tailer.seek("end")
        assert appender.append(b"again") is not None


def test_child_of_a_fork_opens_an_appender_of_its_own(
    probe: Any, logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open()
    appender = probe.Appender(log)
    appender.append(b"parent")

    def child() -> Any:
        try:
            appender.append(b"stray")
        except ForkedError:
            log.append(b"python")
            own = probe.Appender(log)
            own.append(b"child")
            own.close()
            return os.getpid()
        return None

    assert in_child(child) not in (None, os.getpid())
    appender.append(b"parent again")
    assert values(log) == [b"parent", b"python", b"child", b"parent again"]


def test_appender_keeps_a_dropped_log_open(
    probe: Any, logs: Logs, until: Callable[..., None]
) -> None:
    log = commitlog.open(logs.path / "log", segment_size=SEGMENT)
    appender = probe.Appender(log)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del log
        gc.collect()
        appender.append(b"x")
        reader = logs.open(mode="r")
        assert values(reader) == [b"x"]
        reader.close()
        assert caught == []
        appender.close()
        until(lambda: held_in(logs.path / "log") == [])
    assert [each.category for each in caught] == [ResourceWarning]
