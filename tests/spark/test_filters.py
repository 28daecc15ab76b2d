"""Filters that Spark pushes down."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, TimestampType

import commitlog
from commitlog.spark.filters import is_taken
from commitlog.spark.reader import FILTER_WORKER, FilteringReader, LogReader, batch_reader
from tests.spark.logs_in_spark import EPOCH, SIZE, fill, numbered

SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("topic", StringType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("type", LongType())
    .add("sequence", LongType())
)


def _at(seconds: float) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=seconds)


def _filtered(path: Path, *filters: Any, **options: str) -> tuple[list[int], int]:
    """Return the sequences of the rows that pass, and the bytes that the slices read."""
    reader = FilteringReader({"path": str(path), **options}, SCHEMA)
    assert list(reader.pushFilters(list(filters))) == []
    parts = reader.partitions()
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return [row["sequence"] for row in rows], sum(
        piece.read_bytes for part in parts for piece in part.slices
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """2000 records, timestamps one second apart from 0; every fourth record has a key."""
    path = tmp_path_factory.mktemp("filters") / "orders"
    keys = [b"k%d" % (number % 100) if number % 4 == 0 else None for number in range(2000)]
    return path, fill(path, numbered(2000), keys=keys, first_ns=0)


def test_filters_on_offset_bound_the_bytes_read(log: tuple[Path, list[int]]) -> None:
    path, positions = log
    found, size_bytes = _filtered(
        path,
        GreaterThanOrEqual(("offset",), positions[1200]),
        LessThan(("offset",), positions[1203]),
    )
    assert found == [1200, 1201, 1202]
    assert size_bytes < 260 * 140
    assert _filtered(path, EqualTo(("offset",), positions[7]))[0] == [7]
    assert _filtered(path, EqualTo(("offset",), positions[7] + 8))[0] == []


def test_filter_on_timestamp_bounds_the_bytes_read(log: tuple[Path, list[int]]) -> None:
    found, size_bytes = _filtered(log[0], GreaterThan(("timestamp",), _at(1900)))
    assert found == list(range(1901, 2000))
    assert size_bytes < 400 * 140
    assert _filtered(log[0], LessThan(("timestamp",), _at(2.5)))[0] == [0, 1, 2]
    assert _filtered(log[0], GreaterThan(("timestamp",), _at(10**6)))[0] == []


def test_filters_on_key_and_type_select_rows(log: tuple[Path, list[int]]) -> None:
    path = log[0]
    assert _filtered(path, EqualTo(("key",), bytearray(b"k8")))[0] == list(range(8, 2000, 100))
    assert _filtered(path, In(("key",), (b"k8", b"k12")), LessThan(("offset",), 20_000))[0] == [
        8,
        12,
        108,
        112,
    ]
    assert len(_filtered(path, IsNotNull(("key",)))[0]) == 500
    # SQL: `key != x` does not hold for a null key.
    assert len(_filtered(path, Not(EqualTo(("key",), b"k8")))[0]) == 480
    assert len(_filtered(path, EqualTo(("type",), 0))[0]) == 2000
    assert _filtered(path, GreaterThan(("type",), 0))[0] == []


def test_filter_on_topic_opens_only_matching_logs(
    log: tuple[Path, list[int]], tmp_path: Path
) -> None:
    fill(tmp_path / "bids", [b"x"])
    fill(tmp_path / "orders", [b"x"])
    (tmp_path / "orders" / "log.json").write_text("damaged")
    assert _filtered(tmp_path, EqualTo(("topic",), "bids"), subscribe="bids,orders")[0] == [0]
    assert _filtered(tmp_path, StringStartsWith(("topic",), "b"), subscribe="bids,orders")[0] == [0]


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("offset",), "five"),
        EqualTo(("key", "part"), b"x"),
        StringContains(("topic",), "x"),
        Not(EqualTo(("value",), b"x")),
        In(("offset",), (1, None)),
        GreaterThan(("type",), 1 << 70),
    ],
)
def test_unsupported_filter_is_left_to_spark(one: Any) -> None:
    assert not is_taken(one)


def test_reader_takes_filters_only_where_spark_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, FILTER_WORKER, raising=False)
    assert type(batch_reader({"path": "/log"}, SCHEMA, takes_filters=True)) is LogReader
    monkeypatch.setitem(sys.modules, FILTER_WORKER, sys)
    assert type(batch_reader({"path": "/log"}, SCHEMA, takes_filters=True)) is FilteringReader
    assert type(batch_reader({"path": "/log"}, SCHEMA, takes_filters=False)) is LogReader


def test_spark_query_with_filter_pushdown_returns_right_rows(
    spark: Any, log: tuple[Path, list[int]]
) -> None:
    path, positions = log
    frame = spark.read.format("commitlog").load(str(path))
    wanted = frame.where(
        f.col("offset").between(positions[100], positions[1100])
        & (f.col("timestamp") >= f.lit("1970-01-01 00:10:00").cast("timestamp"))
        & f.col("key").isin(bytearray(b"k4"), bytearray(b"k8"))
    )
    expected = [row for row in range(600, 1101) if row % 100 in (4, 8)]
    assert sorted(row.sequence for row in wanted.collect()) == expected
    plain = spark.read.format("commitlog").load(str(path))
    assert plain.where(f.col("offset") == positions[5]).select("sequence").collect() == [(5,)]


SENTINELS = {
    "timestamp >= '0001-01-01'": 2000,
    "timestamp > date'0001-01-01'": 2000,
    "timestamp BETWEEN '1600-01-01' AND '9999-12-31'": 2000,
    "timestamp >= '1677-09-21 00:12:43' AND timestamp < '2262-04-11 23:47:17'": 2000,
    "timestamp = '0001-01-01'": 0,
    "timestamp >= '2262-04-12'": 0,
    "timestamp >= '9999-12-31 23:59:59.999999'": 0,
    "timestamp < timestamp'+12000-01-01'": 2000,
    "timestamp > timestamp'-0500-01-01' AND offset > 0": 2000,
    "timestamp >= timestamp'+294247-01-10 04:00:54.775807'": 0,
    "timestamp NOT IN (timestamp'0001-01-01', timestamp'+20000-01-01')": 2000,
    "timestamp <=> null": 0,
    "timestamp >= null": 0,
    "offset > -9223372036854775808": 2000,
    "offset < -1": 0,
    "offset >= 9223372036854775807": 0,
    "offset < 99999999999999999999": 2000,
    "offset > 4096.5": 1999,
    "offset IN (4096, null)": 1,
    "offset = null": 0,
    "sequence >= 1998.5": 1,
    "sequence > 99999999999999999999": 0,
    "type > double('NaN')": 0,
    "type >= -9223372036854775808": 2000,
}


def test_filters_on_sentinel_values_count_as_in_sql(
    spark: Any, log: tuple[Path, list[int]]
) -> None:
    frame = spark.read.format("commitlog").load(str(log[0]))
    found = {text: len(frame.where(text).select("sequence").collect()) for text in SENTINELS}
    assert found == SENTINELS


@pytest.mark.parametrize("java_8", ["true", "false"])
def test_time_that_python_lacks_is_left_to_spark(
    spark: Any, log: tuple[Path, list[int]], java_8: str
) -> None:
    spark.conf.set("spark.sql.datetime.java8API.enabled", java_8)
    try:
        frame = spark.read.format("commitlog").load(str(log[0]))
        late = "timestamp >= timestamp'1970-01-01 00:20:00'"
        wanted = frame.where(f"{late} AND timestamp < timestamp'+12000-01-01'")
        assert wanted.count() == 800
        assert wanted.where("timestamp > timestamp'-0044-03-15'").count() == 800
    finally:
        spark.conf.unset("spark.sql.datetime.java8API.enabled")


@pytest.mark.parametrize("moment", [dt.datetime.min, dt.datetime.max])  # noqa: DTZ901
def test_naive_time_at_the_ends_of_datetime_is_no_error(moment: dt.datetime) -> None:
    assert not is_taken(GreaterThan(("timestamp",), moment)) or moment.astimezone()


def test_filters_on_type_and_key_read_by_posting_lists(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    with commitlog.open(path, segment_size=SIZE, flush="none") as log:
        for number in range(6000):
            log.append(b"%d" % number, type=number % 300, key=b"k%d" % (number % 200))
        log.delete_before(0)  # seals
    schema = StructType().add("offset", LongType()).add("type", LongType()).add("key", BinaryType())

    def read(*filters: Any) -> tuple[list[int], int]:
        reader = FilteringReader({"path": str(path)}, schema)
        assert list(reader.pushFilters(list(filters))) == []
        parts = reader.partitions()
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        size_bytes = sum(piece.read_bytes for part in parts for piece in part.slices)
        return [row["offset"] for row in rows], size_bytes

    asked: list[list[Any]] = [
        [EqualTo(("type",), 7)],
        [In(("type",), (7, 8))],
        [EqualTo(("key",), b"k7"), EqualTo(("type",), 7)],
        [In(("key",), (b"k7", b"k9")), Not(EqualTo(("type",), 7))],
        [EqualTo(("type",), 77_777)],
    ]
    scanned = [read(*filters) for filters in asked]
    assert [len(found) for found, _ in scanned] == [20, 40, 10, 50, 0]
    with commitlog.open(path) as log:
        assert len(list(log.view(type=7))) == 20  # builds the lists
        unsealed = log.tail_position % SIZE
    for filters, (found, size_bytes) in zip(asked, scanned, strict=True):
        by_lists, fewer_bytes = read(*filters)
        assert by_lists == found
        assert fewer_bytes <= min(unsealed + 4096 * len(found), size_bytes)
