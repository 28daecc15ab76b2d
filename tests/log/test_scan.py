"""Scans of a range as Arrow: bounds, columns, and records appended or deleted during the scan."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog.errors import ClosedError, CorruptRecordError, InvalidOptionError, PositionError
from commitlog.keep import archive_segments
from tests.setups import Logs, Setup

BEGAN = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
BEGAN_NS = int(BEGAN.timestamp()) * 10**9
NAMES = ["position", "sequence", "timestamp", "type", "key", "value"]


def filled(log: CommitLog, count: int = 3000) -> list[int]:
    """Append records a second apart over several segments; every third has a key."""
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


def test_scan_columns_equal_the_records(logs: Logs, setup: Setup) -> None:
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
def test_single_column_equals_that_of_a_full_scan(logs: Logs, name: str) -> None:
    log = logs.open()
    filled(log)
    long = log.append(bytes(5000), key=bytes(900), type=7)
    assert long > 0
    assert log.to_arrow(columns=[name]).column(0).equals(log.to_arrow()[name])


def test_columns_are_returned_in_the_requested_order(logs: Logs) -> None:
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
def test_time_bounds_select_the_records_between(
    logs: Logs, bounds: dict[str, Any], expected: range
) -> None:
    log = logs.open()
    filled(log)
    assert log.to_arrow(**bounds, columns=["sequence"])["sequence"].to_pylist() == list(expected)


def test_position_bounds_select_the_records_between(logs: Logs) -> None:
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
        ({"columns": []}, "columns is empty"),
        ({"columns": ["value", "value"]}, "duplicate"),
        ({"end": -1}, "end must be a position of at least 0, or a time, not -1"),
        ({"end": 1.5}, "timestamp must be nanoseconds since 1970, a text"),
        ({"start": "noon"}, "timestamp must be a time such as"),
        ({"start": dt.datetime(2026, 5, 1)}, "timestamp must have a time zone"),  # noqa: DTZ001
        (
            {"start": "2026-05-01T00:10", "end": "2026-05-01T00:09"},
            r"is before start \('2026-05-01T00:10'",
        ),
    ],
)
def test_invalid_scan_arguments_are_refused(logs: Logs, given: dict[str, Any], why: str) -> None:
    log = logs.open()
    filled(log)
    with pytest.raises(InvalidOptionError, match=why):
        log.to_reader(**given)


def test_start_inside_a_record_is_refused(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log)
    with pytest.raises(PositionError, match="no record starts here"):
        log.to_reader(start=positions[7] + 8)


def test_records_appended_during_a_scan_are_not_read(logs: Logs) -> None:
    log = logs.open()
    filled(log)
    reader = log.to_reader(columns=["sequence"])
    first = reader.read_next_batch()
    filled(log)
    assert first.num_rows + reader.read_all().num_rows == 3000


def test_start_below_the_first_position_is_refused(logs: Logs) -> None:
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


def test_reader_of_a_closed_log_raises(logs: Logs) -> None:
    log = logs.open()
    filled(log)
    reader = log.to_reader()
    log.close()
    with pytest.raises(ClosedError):
        reader.read_all()
    with pytest.raises(ClosedError):
        log.to_reader()


def test_archive_scan_equals_log_scan(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    filled(log, 6000)
    log.close()
    archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
    with commitlog.open(tmp_path / "archive", "r") as archive:
        archived = archive.to_arrow()
    with commitlog.open(tmp_path / "log", "r") as whole:
        assert archived.num_rows > 1000
        assert archived.equals(whole.to_arrow().slice(0, archived.num_rows))


@pytest.mark.parametrize("size", [8, 300, 5000])
@pytest.mark.parametrize("columns", [[name] for name in NAMES if name != "sequence"] + [NAMES])
def test_damaged_value_raises_for_any_column_but_sequence(
    logs: Logs, size: int, columns: list[str]
) -> None:
    log = logs.open()
    positions = log.append_many([bytes([number]) * size for number in range(10)])
    log.close()
    with open(logs.path / "log" / f"{0:020}.seg", "r+b") as file:
        file.seek(int(positions[6]) + 16)
        file.write(b"damage")
    with commitlog.open(log.path, "r") as damaged, pytest.raises(CorruptRecordError) as raised:
        damaged.to_arrow(columns=columns)
    assert raised.value.position == positions[6]


def test_sequences_alone_are_read_from_the_index(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log)
    log.close()
    with open(logs.path / "log" / f"{0:020}.seg", "r+b") as file:
        file.seek(positions[6] + 16)
        file.write(b"damage")
    with commitlog.open(log.path, "r") as damaged:
        reader = damaged.to_reader(columns=["sequence"])
        found = [one for batch in reader for one in batch["sequence"].to_pylist()]
        assert found == list(range(damaged.count()))


def test_position_bounds_of_sequences_select_the_records(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log)

    def found(start: int, end: int) -> list[int]:
        table = log.to_arrow(start=start, end=end, columns=["sequence"])
        return list(table["sequence"].to_pylist())

    assert found(positions[10], positions[2500]) == list(range(10, 2500))
    assert found(positions[5], positions[5]) == []
    # Inside a record, where the records have to be read:
    assert found(positions[10], positions[20] + 8) == list(range(10, 21))


def test_sequences_below_an_open_claim_are_read(logs: Logs) -> None:
    log = logs.open()
    filled(log, 10)
    with log.claim(8):
        assert log.to_arrow(columns=["sequence"])["sequence"].to_pylist() == list(range(10))


def test_scan_of_pooled_log_has_the_records_sequences(logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    filled(log, 5000)
    seen = log.to_arrow(columns=["sequence"])["sequence"].to_pylist()
    assert seen == list(range(5000)) == [record.sequence for record in log.tailer()]


def test_record_timestamp_is_a_datetime(logs: Logs) -> None:
    log = logs.open()
    filled(log, 2)
    assert [record.timestamp for record in log.tailer()] == [BEGAN, BEGAN + dt.timedelta(seconds=1)]


def test_collected_reader_releases_its_segment(logs: Logs) -> None:
    log = logs.open()
    positions = filled(log, 6000)
    log.flush()
    reader = log.to_reader()
    reader.read_next_batch()
    del reader
    assert log.delete_before(positions[4000], force_after=0)


def test_duckdb_reads_readers_and_batches(logs: Logs) -> None:
    import duckdb  # which complains at the end of each process that imported it

    log = logs.open()
    filled(log)
    reader = log.to_reader(columns=["type", "value"])
    assert duckdb.sql("SELECT count(*), sum(type) FROM reader").fetchall() == [(3000, 3000)]
    batch = log.tailer().read_batch()
    assert duckdb.sql("SELECT count(key) FROM batch").fetchall() == [(int(batch.keyed.sum()),)]
    assert reader is not batch


def test_scan_does_not_import_the_compute_functions(logs: Logs) -> None:
    log = logs.open()
    filled(log, 10)
    log.close()
    program = (
        "import sys, commitlog, commitlog.polars\n"
        "with commitlog.open(sys.argv[1], 'r') as log:\n"
        "    assert log.to_arrow().num_rows == 10\n"
        "assert commitlog.polars.scan(sys.argv[1]).collect().height == 10\n"
        "assert 'pyarrow' in sys.modules and 'pyarrow.compute' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(log.path)], check=True)
