"""Ranges of a log as Arrow: bounds, columns, what is written or deleted meanwhile."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import commitlog
from commitlog import Archive, CommitLog
from commitlog.errors import ClosedError, CorruptRecordError, InvalidOptionError, PositionError
from commitlog.keep import archive_segments
from tests.setups import Logs, Setup

BEGAN = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
BEGAN_NS = int(BEGAN.timestamp()) * 10**9
NAMES = ["position", "sequence", "timestamp", "type", "key", "value"]


def filled(log: CommitLog, count: int = 3000) -> list[int]:
    """Records a second apart over several segments; every third one has a key and a type."""
    positions = [
        log.append(
            b"value %d" % number,
            key=b"key" if number % 3 == 0 else None,
            type=number % 3,
            timestamp_ns=BEGAN_NS + number * 10**9,
        )
        for number in range(count)
    ]
    log.commit()
    return positions


def test_every_column_holds_what_records_hold(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    filled(log)
    table = log.to_arrow()
    table.validate(full=True)
    assert table.schema.names == NAMES
    expected = [
        (one.position, one.sequence, one.timestamp_ns, one.type, one.key, one.value)
        for one in log.tailer()
    ]
    columns = [
        table[name] if name != "timestamp" else table[name].cast(pa.int64()) for name in NAMES
    ]
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_one_column_alone_is_that_of_the_whole(logs: Logs, name: str) -> None:
    log = logs.open()
    filled(log)
    long = log.append(bytes(5000), key=bytes(900), type=7)
    assert long > 0
    assert log.to_arrow(columns=[name]).column(0).equals(log.to_arrow()[name])


def test_columns_come_in_the_order_that_is_asked(logs: Logs) -> None:
    log = logs.open()
    filled(log, 3)
    assert log.to_arrow(columns=["value", "position"]).schema.names == ["value", "position"]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, range(3000)),
        ({"start": BEGAN + dt.timedelta(seconds=2990)}, range(2990, 3000)),
        ({"start": "2026-05-01T00:10", "end": "2026-05-01T00:10:07.5"}, range(600, 608)),
        ({"end": BEGAN + dt.timedelta(seconds=2)}, range(2)),
        ({"start": "2027-01-01"}, range(0)),
        ({"end": "2020-01-01"}, range(0)),
        ({"start": "first", "end": "end"}, range(3000)),
        ({"start": "end"}, range(0)),
    ],
)
def test_bounds_are_times(logs: Logs, bounds: dict[str, Any], expected: range) -> None:
    log = logs.open()
    filled(log)
    assert log.to_arrow(**bounds, columns=["sequence"])["sequence"].to_pylist() == list(expected)


def test_bounds_are_positions(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log)
    found = log.to_arrow(start=positions[1500], end=positions[2500], columns=["position"])
    assert found["position"].to_pylist() == positions[1500:2500]
    assert log.to_arrow(start=positions[5], end=positions[5]).num_rows == 0
    assert log.to_arrow(end=1 << 62).num_rows == 3000


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"columns": ["sum"]},
            "there is no column 'sum': the columns are position, sequence, timestamp",
        ),
        ({"columns": "value"}, "columns must be a list of names, not the text 'value'"),
        ({"columns": []}, "columns names none"),
        ({"columns": ["value", "value"]}, "twice"),
        ({"end": -1}, "end must be a position from 0 on or a time, not -1"),
        ({"end": 1.5}, "timestamp must be nanoseconds since 1970, a text"),
        ({"start": "noon"}, "timestamp must be a time such as"),
        ({"start": dt.datetime(2026, 5, 1)}, "timestamp must have a time zone"),  # noqa: DTZ001
        (
            {"start": "2026-05-01T00:10", "end": "2026-05-01T00:09"},
            r"is before start \('2026-05-01T00:10'",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_once(logs: Logs, given: dict[str, Any], why: str) -> None:
    log = logs.open()
    filled(log)
    with pytest.raises(InvalidOptionError, match=why):
        log.to_reader(**given)


def test_start_that_is_no_record_is_refused(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log)
    with pytest.raises(PositionError, match="no record starts here"):
        log.to_reader(start=positions[7] + 8)


def test_old_name_of_the_timestamp_warns_and_works(logs: Logs) -> None:
    log = logs.open()
    filled(log, 2)
    with pytest.warns(DeprecationWarning, match="timestamp_ns is named timestamp now") as warned:
        table = log.to_arrow(columns=["timestamp_ns"])
    assert table["timestamp_ns"].to_pylist() == [BEGAN_NS, BEGAN_NS + 10**9]
    assert warned[0].filename == __file__


def test_records_that_come_later_are_not_read(logs: Logs) -> None:
    log = logs.open()
    filled(log)
    reader = log.to_reader(columns=["sequence"])
    first = reader.read_next_batch()
    filled(log)
    assert first.num_rows + reader.read_all().num_rows == 3000


def test_pruned_start_is_refused_and_none_is_the_first_left(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log, 6000)
    log.flush()
    log.delete_before(positions[4000])
    with pytest.raises(PositionError, match="the log's positions go from"):
        log.to_reader(start=positions[0])
    left = log.to_arrow(columns=["position", "sequence"])
    assert left["position"][0].as_py() == log.first_position > positions[0]
    assert left["sequence"][0].as_py() == log.first_sequence


def test_segments_deleted_before_they_are_read_raise(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log, 6000)
    log.flush()
    reader = log.to_reader()
    log.delete_before(positions[4000])
    with pytest.raises(PositionError):
        reader.read_all()


def test_reader_keeps_its_log_open(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"kept")
    reader = commitlog.open(tmp_path / "log", "r").to_reader()
    with pytest.warns(ResourceWarning, match="dropped without close"):
        assert reader.read_all()["value"].to_pylist() == [b"kept"]


def test_closed_log_ends_a_reader_with_an_error(logs: Logs) -> None:
    log = logs.open()
    filled(log)
    reader = log.to_reader()
    log.close()
    with pytest.raises(ClosedError):
        reader.read_all()
    with pytest.raises(ClosedError):
        log.to_reader()


def test_archive_is_read_as_the_log_is(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    filled(log, 6000)
    log.close()
    archive_segments(log.path, Archive(tmp_path / "archive"), keep=True)
    with commitlog.open(tmp_path / "archive", "r") as archive:
        archived = archive.to_arrow()
    with commitlog.open(tmp_path / "log", "r") as whole:
        assert archived.num_rows > 1000
        assert archived.equals(whole.to_arrow().slice(0, archived.num_rows))


@pytest.mark.parametrize("size", [8, 300, 5000])
@pytest.mark.parametrize("column", NAMES)
def test_damaged_value_is_found_whatever_is_wanted(logs: Logs, size: int, column: str) -> None:
    log = logs.open()
    positions = log.append_many([bytes([number]) * size for number in range(10)])
    log.close()
    with open(logs.path / "log" / f"{0:020}.seg", "r+b") as file:
        file.seek(int(positions[6]) + 16)
        file.write(b"damage")
    with commitlog.open(log.path, "r") as damaged, pytest.raises(CorruptRecordError) as raised:
        damaged.to_arrow(columns=[column])
    assert raised.value.position == positions[6]


def test_sequences_in_a_pooled_log_are_those_of_records(logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    filled(log, 5000)
    seen = log.to_arrow(columns=["sequence"])["sequence"].to_pylist()
    assert seen == list(range(5000)) == [record.sequence for record in log.tailer()]


def test_record_has_its_time_as_a_datetime(logs: Logs) -> None:
    log = logs.open()
    filled(log, 2)
    assert [record.timestamp for record in log.tailer()] == [BEGAN, BEGAN + dt.timedelta(seconds=1)]


def test_abandoned_reader_lets_go_of_its_segment(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log, 6000)
    log.flush()
    reader = log.to_reader()
    reader.read_next_batch()
    del reader
    assert log.delete_before(positions[4000], force_after=0)


def test_duckdb_reads_readers_and_batches(logs: Logs) -> None:
    log = logs.open()
    filled(log)
    reader = log.to_reader(columns=["type", "value"])
    assert duckdb.sql("SELECT count(*), sum(type) FROM reader").fetchall() == [(3000, 3000)]
    batch = log.tailer().read_batch()
    assert duckdb.sql("SELECT count(key) FROM batch").fetchall() == [(int(batch.keyed.sum()),)]
    assert reader is not batch
