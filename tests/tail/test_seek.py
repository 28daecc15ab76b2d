"""Seeks: by position, sequence, time, key, and by a user's key function."""

from __future__ import annotations

import bisect
import datetime as dt
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import InvalidOptionError, PositionError, RecordTypeError
from tests.log_files import HEADER, SIZE, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.setups import BY_HAND, SEGMENT, Logs, Setup

SEED = 20260215
COUNT = 4000


def stepping_back(count: int) -> list[int]:
    """Return timestamps as several writers give them: rising, with steps back."""
    draw = random.Random(SEED)
    return [max(0, 1000 * index + draw.randrange(-40_000, 40_000)) for index in range(count)]


def filled(logs: Logs, setup: Setup) -> tuple[CommitLog, list[int]]:
    log = logs.open_as(setup, index_spacing=16)
    stamps = stepping_back(COUNT)
    for index, stamp in enumerate(stamps):
        log.append(
            b"%d" % index,
            key=b"k%d" % (index % 200) if index % 2 else None,
            timestamp_ns=stamp,
            sync=False,
        )
    return log, stamps


def test_seek_finds_each_sequence_in_every_segment(logs: Logs, setup: Setup) -> None:
    log, _ = filled(logs, setup)
    tailer = log.tailer(visibility="appended")
    draw = random.Random(SEED)
    for sequence in [0, COUNT - 1, *(draw.randrange(COUNT) for _ in range(200))]:
        assert tailer.seek(sequence=sequence)
        record = tailer.read()
        assert record is not None
        assert (record.value, record.sequence) == (b"%d" % sequence, sequence)
    assert tailer.seek(sequence=COUNT)
    assert tailer.read() is None
    assert tailer.position == log.tail_position


def test_seek_by_time_finds_the_first_record_not_older(logs: Logs, setup: Setup) -> None:
    log, stamps = filled(logs, setup)
    tailer = log.tailer(visibility="appended")
    draw = random.Random(SEED)
    for stamp in [
        -1,
        0,
        max(stamps),
        *(draw.randrange(1000 * COUNT) for _ in range(200)),
        *draw.sample(stamps, 50),
    ]:
        expected = next(index for index, value in enumerate(stamps) if value >= stamp)
        assert tailer.seek(timestamp=stamp)
        assert tailer.read().value == b"%d" % expected  # type: ignore[union-attr]
    assert not tailer.seek(timestamp=max(stamps) + 1)
    assert tailer.position == log.tail_position


def test_seek_accepts_a_datetime_of_any_zone(logs: Logs) -> None:
    log = logs.open()
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    nanoseconds = 1772366400 * 10**9
    for step in range(3):
        log.append(b"%d" % step, timestamp_ns=nanoseconds + step * 1000)
    tailer = log.tailer()
    for zone in (dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))):
        tailer.seek(timestamp=(noon + dt.timedelta(microseconds=1)).astimezone(zone))
        assert tailer.read().value == b"1"  # type: ignore[union-attr]
    with pytest.raises(InvalidOptionError, match="time zone"):
        tailer.seek(timestamp=dt.datetime(2026, 3, 1))  # noqa: DTZ001
    for wrong in (1.5, "2026", True, 1 << 63):
        with pytest.raises(InvalidOptionError, match="timestamp must be"):
            tailer.seek(timestamp=wrong)  # type: ignore[arg-type]
    tailer.seek(timestamp="2026-03-01T12:00:00.000001500")
    assert tailer.read().value == b"2"  # type: ignore[union-attr]


def test_seek_by_key_searches_in_the_tailers_direction(logs: Logs, setup: Setup) -> None:
    log, _ = filled(logs, setup)
    tailer = log.tailer(visibility="appended")
    for expected in (7, 7, 207):
        assert tailer.seek(key=b"k7")
        if expected == 7:
            assert tailer.seek(key=b"k7")  # the cursor is still before that record
    assert tailer.read().value == b"7"  # type: ignore[union-attr]
    assert tailer.seek(key=b"k7")
    assert tailer.read().value == b"207"  # type: ignore[union-attr]
    tailer.direction = "backward"
    assert tailer.seek(key=b"k7")
    assert [tailer.read().value for _ in range(2)] == [b"207", b"206"]  # type: ignore[union-attr]
    place = tailer.position
    assert not tailer.seek(key=b"absent")
    assert not tailer.seek(key=b"")
    assert tailer.position == place
    with pytest.raises(RecordTypeError, match="encode"):
        tailer.seek(key="k7")  # type: ignore[arg-type]


def test_seek_accepts_first_end_and_positions(logs: Logs) -> None:
    log = logs.open()
    positions = log.append_many([b"a", b"b", b"c"])
    tailer = log.tailer()
    tailer.seek("end")
    assert tailer.read() is None
    tailer.seek("first")
    assert tailer.read().value == b"a"  # type: ignore[union-attr]
    for where in (int(positions[1]), "end", "first"):
        assert tailer.seek(where)  # type: ignore[arg-type]
    assert tailer.seek(position=int(positions[1]))
    assert tailer.read().value == b"b"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"position": 4096, "sequence": 0},
        {"sequence": -1},
        {"sequence": 1.0},
        {"sequence": True},
        {"sequence": 1 << 64},
        {"position": "last"},
        {"position": np.array([1, 2])},
        {"timestamp": dt.datetime.min.replace(tzinfo=dt.UTC)},
        {"timestamp": dt.datetime.max.replace(tzinfo=dt.UTC)},
    ],
)
def test_invalid_seek_is_refused_and_keeps_the_position(logs: Logs, given: dict[str, Any]) -> None:
    log = logs.open()
    log.append(b"x")
    tailer = log.tailer()
    with pytest.raises(InvalidOptionError):
        tailer.seek(**given)
    assert tailer.read().value == b"x"  # type: ignore[union-attr]


@pytest.mark.parametrize("key_function", [None, 5, "value", b"value"])
def test_key_function_that_is_not_callable_is_refused(logs: Logs, key_function: Any) -> None:
    with pytest.raises(InvalidOptionError, match="key_function must be a callable"):
        logs.open().tailer().search(key_function, 1)


def test_missing_sequence_error_names_the_existing_range(logs: Logs) -> None:
    log = logs.open()
    for _ in range(6):
        log.append_many([b"x"] * 10)
        log.roll()
    log.flush()
    log.delete_before(3 * SEGMENT)
    tailer = log.tailer()
    assert (log.first_sequence, log.last_sequence) == (30, 59)
    for wrong in (0, 29, 61, 1 << 60):
        with pytest.raises(PositionError, match="from 30 to 59") as caught:
            tailer.seek(sequence=wrong)
        assert caught.value.first_position == 3 * SEGMENT
    tailer.seek(sequence=30)
    assert tailer.read().sequence == 30  # type: ignore[union-attr]


def test_reader_in_another_handle_seeks_appended_records(logs: Logs) -> None:
    writer = logs.open(index_spacing=16)
    reader = logs.open(mode="r", index_spacing=16)
    tailer = reader.tailer()
    for index in range(3000):
        writer.append(b"%d" % index, timestamp_ns=1000 + index)
        if index % 97 == 0:
            tailer.seek(sequence=index)
            assert tailer.read().value == b"%d" % index  # type: ignore[union-attr]
            tailer.seek(timestamp=1000 + index // 2)
            assert tailer.read().value == b"%d" % (index // 2)  # type: ignore[union-attr]


def test_record_behind_an_open_claim_is_not_found_by_time(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=60, **BY_HAND)
    log.append(b"before", timestamp_ns=10, sync=False)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 16).result()
    log.append(b"behind", timestamp_ns=20, sync=False)
    tailer = log.tailer(visibility="appended")
    assert not tailer.seek(timestamp=20)
    with claim:
        claim.buffer[:] = b"sixteen bytes ok"
    assert tailer.seek(timestamp=20)


# --- search ---------------------------------------------------------------------------------------


def number(record: Any) -> int:
    return int(record.value)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_search_with_repeats_and_gaps_matches_bisect_left(
    logs: Logs, setup: Setup, direction: Any
) -> None:
    log = logs.open_as(setup, index_spacing=16)
    draw = random.Random(SEED)
    numbers = sorted(2 * draw.randrange(10, 900) for _ in range(3000))
    log.append_many([b"%d" % value for value in numbers])
    tailer = log.tailer(visibility="appended", direction=direction)
    for wanted in [0, 1, 20, 1798, 1799, 5000, *(draw.randrange(1900) for _ in range(40))]:
        first = bisect.bisect_left(numbers, wanted)
        found = tailer.search(number, wanted)
        if wanted in numbers:
            assert found is not None
            assert (number(found), found.sequence) == (wanted, first)
        else:
            assert found is None
        assert tailer.direction == direction
        onward = tailer.read()
        index = first if direction == "forward" else first - 1
        assert (None if onward is None else onward.sequence) == (
            index if 0 <= index < len(numbers) else None
        )


def test_search_reads_few_records_and_passes_errors_on(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"%d" % value for value in range(4096)])
    asked = []

    def ask(record: Any) -> int:
        asked.append(record.sequence)
        return number(record)

    tailer = log.tailer()
    assert tailer.search(ask, 1234) is not None
    assert len(asked) <= 13
    with pytest.raises(TypeError):
        tailer.search(ask, "text")
    assert log.tailer(start="end").search(ask, 5).value == b"5"  # type: ignore[union-attr]


def test_search_in_an_empty_log_finds_nothing(logs: Logs) -> None:
    tailer = logs.open().tailer()
    assert tailer.search(number, 5) is None
    assert tailer.read() is None


def test_concurrent_seeks_find_the_right_records(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open(index_spacing=16)
    log.append_many([b"%d" % value for value in range(20_000)])

    def look(seed: int) -> int:
        draw = random.Random(seed)
        tailer = log.tailer()
        for _ in range(200):
            wanted = draw.randrange(20_000)
            tailer.seek(sequence=wanted)
            assert tailer.read().value == b"%d" % wanted  # type: ignore[union-attr]
        return seed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, range(8))) == list(range(8))


def test_numpy_integers_are_accepted_as_positions(logs: Logs) -> None:
    log = logs.open()
    positions = log.append_many([b"a", b"b", b"c"])
    tailer = log.tailer(start=positions[1])
    assert tailer.seek(positions[2])
    assert tailer.seek(sequence=np.int64(1))
    assert tailer.seek(timestamp=np.int64(0))
    assert len(tailer.read_batch(np.int32(2))) == 2  # type: ignore[arg-type]
    assert log.count(positions[0], positions[2]) == 2


def test_seek_behind_records_damaged_later_stays_in_the_log(files: LogFiles) -> None:
    """The index of the full segment was built before, and counts the lost record, too."""
    files.full(0, numbered(10))
    files.create(1, opened=True)
    files.records(1, numbered(10, 10))
    with commitlog.open(files.path, "r") as log, log.tailer(on_damage="skip") as tailer:
        assert tailer.seek(sequence=9)
        files.flip(0, HEADER + 3 * 32)  # a length, behind which records are searched by CRC
        assert tailer.seek(sequence=9)
        assert tailer.read().value == numbered(1, 10)[0]


@pytest.mark.parametrize(
    "seal",
    [
        oracle.Seal(4416, 2**64 - 1, 10, 7, 7, 7),
        oracle.Seal(4416, 2**63, 0, 0, 0, 0),
        oracle.Seal(4416, 0, 2**63, 7, 7, 7),
        oracle.Seal(SIZE + 8, 0, 10, 7, 7, 7),
        oracle.Seal(4417, 0, 10, 7, 7, 7),
        oracle.Seal(8, 0, 10, 7, 7, 7),
    ],
)
def test_impossible_seal_counts_as_not_written(files: LogFiles, seal: oracle.Seal) -> None:
    files.create(0, seal=seal)
    files.skip(0, files.records(0, numbered(10)), 0)
    files.create(1, opened=True)
    files.records(1, numbered(10, 10))
    with commitlog.open(files.path, "r") as log, log.tailer() as tailer:
        assert [record.sequence for record in tailer] == list(range(20))
        assert tailer.seek(sequence=15)
        assert tailer.read().sequence == 15
