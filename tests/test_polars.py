"""A log as a LazyFrame: the same rows as Arrow returns, and a scan that reads no more than the
query needs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import commitlog
import commitlog.polars
from commitlog import Store
from commitlog.errors import InvalidOptionError, LogNotFoundError, NotALogError
from commitlog.keep import archive_segments
from commitlog.log.scan import Scan
from tests.log.test_scan import BEGAN, BEGAN_NS, filled
from tests.setups import SEGMENT

position, sequence, timestamp, value = map(pl.col, ("position", "sequence", "timestamp", "value"))
# A comparison with a time starts the threads of Polars, which forks of this process would lack: it
# stands in a function.
LATER = BEGAN + dt.timedelta(seconds=2000)
Query = Callable[[pl.LazyFrame], pl.LazyFrame]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        filled(log)
        log.append(b"older", timestamp_ns=BEGAN_NS)
    return tmp_path / "log"


@pytest.fixture
def begun_at(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The start, end and columns of each scan."""
    seen: list[tuple[Any, ...]] = []
    made = Scan.__init__

    def noted(self: Scan, *given: Any, **also: Any) -> None:
        seen.append(given[1:4])
        made(self, *given, **also)

    monkeypatch.setattr(Scan, "__init__", noted)
    return seen


QUERIES: list[Query] = [
    lambda frame: frame,
    lambda frame: frame.select(pl.len()),
    lambda frame: frame.select("value"),
    lambda frame: frame.select(pl.len(), position.max()),
    lambda frame: frame.head(7),
    lambda frame: frame.tail(2),
    lambda frame: frame.head(100).select(pl.len()),
    lambda frame: frame.head(100).filter(timestamp >= BEGAN + dt.timedelta(seconds=50)),
    lambda frame: frame.filter(timestamp >= LATER),
    lambda frame: frame.filter(timestamp < BEGAN + dt.timedelta(seconds=5)),
    lambda frame: frame.filter(timestamp == LATER).select("sequence"),
    lambda frame: frame.filter(timestamp > LATER).select(pl.len()),
    lambda frame: frame.filter(
        timestamp.is_between(LATER, LATER + dt.timedelta(seconds=9), closed="left")
    ),
    lambda frame: frame.filter((timestamp >= LATER) | (sequence < 2)),
    lambda frame: frame.filter(~(timestamp >= LATER)).select(pl.len()),
    lambda frame: frame.filter(sequence >= 1500, sequence < 1503),
    lambda frame: frame.filter(sequence == 3000),
    lambda frame: frame.filter(sequence > 10**12),
    lambda frame: frame.filter(sequence <= 10**12).select(pl.len()),
    lambda frame: frame.filter(position > 100_000, position <= 100_100),
    lambda frame: frame.filter(position >= -5).select(pl.len()),
    lambda frame: frame.filter(position < -5),
    lambda frame: frame.filter(position > 10**12),
    lambda frame: frame.filter(position > 99_999.5).select(pl.len()),
    lambda frame: frame.filter(pl.col("key").is_null(), pl.col("type") == 2).select(pl.len()),
    lambda frame: frame.filter(value == b"value 17"),
    lambda frame: frame.filter(pl.lit(True)).select(pl.len()),
    lambda frame: frame.filter(pl.lit(False)).select(pl.len()),
    lambda frame: frame.filter(pl.int_range(pl.len()) < 3).select(pl.len()),
    lambda frame: frame.group_by("type").agg(pl.len()).sort("type"),
    lambda frame: frame.join(frame.select("sequence", other="value"), on="sequence").select(
        pl.len()
    ),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_query_returns_the_rows_of_the_arrow_table(path: Path, query: Query, engine: Any) -> None:
    with commitlog.open(path, "r") as log:
        frame = pl.DataFrame(log.to_arrow())
    found = query(commitlog.polars.scan(path)).collect(engine=engine)
    assert found.equals(query(frame.lazy()).collect())
    assert found.schema == query(frame.lazy()).collect_schema()


def test_count_reads_no_record(path: Path, begun_at: list[Any]) -> None:
    assert commitlog.polars.scan(path).select(pl.len()).collect().item() == 3001
    assert begun_at == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lambda: timestamp >= LATER, 2000),
        (lambda: LATER.astimezone(dt.UTC) <= timestamp, 2000),
        (lambda: (timestamp > LATER) & (value != b""), 2001),
        (
            lambda: timestamp >= pl.lit("2026-05-01 00:33:20").str.to_datetime(time_zone="UTC"),
            2000,
        ),
        (lambda: timestamp.is_between(LATER, BEGAN + dt.timedelta(days=1)), 2000),
        (lambda: sequence >= 1000, 1000),
        (lambda: sequence == 1234, 1234),
    ],
)
def test_lower_bound_starts_the_scan_by_the_index(
    path: Path, begun_at: list[Any], condition: Callable[[], pl.Expr], expected: int
) -> None:
    commitlog.polars.scan(path).filter(condition()).collect()
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        tailer.seek(sequence=expected)
        assert [start for start, _, _ in begun_at] == [tailer.position]


def test_upper_bounds_end_the_scan(path: Path, begun_at: list[Any]) -> None:
    frame = commitlog.polars.scan(path)
    frame.filter(position <= 9000).collect()
    frame.filter(sequence <= 4).collect()
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        tailer.seek(sequence=5)
        assert [end for _, end, _ in begun_at] == [9001, tailer.position]


def test_scan_reads_only_selected_columns(path: Path, begun_at: list[Any]) -> None:
    commitlog.polars.scan(path).select(value.bin.size().sum()).collect()
    assert [columns for _, _, columns in begun_at] == [["value"]]


def test_head_ends_the_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    read = Scan.record_batches

    def noted(self: Scan, most: int) -> Any:
        asked.append(most)
        return read(self, most)

    monkeypatch.setattr(Scan, "record_batches", noted)
    assert commitlog.polars.scan(path).head(3).collect().height == 3
    assert asked == [3]


def test_each_collect_reads_to_the_current_end(path: Path) -> None:
    frame = commitlog.polars.scan(path).select(pl.len())
    with commitlog.open(path) as log:
        before = frame.collect().item()
        log.append(b"one more")
        assert frame.collect().item() == before + 1
        assert commitlog.polars.scan(path).select("value").collect().height == before + 1


def test_pruned_log_begins_at_its_first_record(path: Path) -> None:
    frame = commitlog.polars.scan(path)
    with commitlog.open(path) as log:
        for number in range(3000):
            log.append(b"more %d" % number)
        log.flush()
        assert log.delete_before(log.tail_position)
        first = log.first_sequence
        count = log.count()
    assert frame.filter(sequence >= 0).select(sequence.min(), pl.len()).collect().row(0) == (
        first,
        count,
    )
    assert frame.filter(position < 5000).collect().height == 0


def test_archive_is_scanned_as_a_log(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        filled(log, 6000)
    archive_segments(tmp_path / "log", Store(tmp_path / "archive"), keep=True)
    found = (
        commitlog.polars.scan(tmp_path / "archive")
        .select(pl.len(), sequence.max())
        .collect()
        .row(0)
    )
    assert found[0] == found[1] + 1 > 1000


@pytest.mark.parametrize("wanted", [("no such column", 1), ("timestamp_ns", 1)])
def test_missing_column_raises_naming_it(path: Path, wanted: tuple[str, int]) -> None:
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match=wanted[0]):
        commitlog.polars.scan(path).select(wanted[0]).collect()


def test_collect_of_missing_log_raises_naming_the_path(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError, match="there is no log here"):
        commitlog.polars.scan(tmp_path / "nothing").collect()
    (tmp_path / "file").write_text("text")
    with pytest.raises(NotALogError, match="not a segment of a log"):
        commitlog.polars.scan(tmp_path / "file").collect()
    with pytest.raises(InvalidOptionError, match="path must be"):
        commitlog.polars.scan(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("keyed", [False, True])
def test_bytes_of_any_length_arrive_whole(tmp_path: Path, *, keyed: bool) -> None:
    lengths = [*range(40), *reversed(range(40))]
    values = [b"\xff" * length for length in lengths for _ in range(length % 3 * 20 + 1)]
    keys = [value[: len(value) // 2] if keyed and len(value) % 5 else None for value in values]
    with commitlog.open(tmp_path) as log:
        for one, key in zip(values, keys, strict=True):
            log.append(one, key=key)
    frame = commitlog.polars.scan(tmp_path).select("key", "value").collect()
    assert frame["value"].to_list() == values
    assert frame["key"].to_list() == keys
    # Hashes and comparisons see the bytes behind a short value, too.
    assert frame.group_by("value").len().height == 40


def test_scan_has_headers_on_request(path: Path, begun_at: list[tuple[Any, ...]]) -> None:
    given = {"a": b"x", "b": b""}
    with commitlog.open(path) as log:
        log.append(b"named", headers=given)
    plain, named = commitlog.polars.scan(path), commitlog.polars.scan(path, headers=True)
    assert "headers" not in plain.collect_schema().names()
    frame = named.collect()
    assert frame.schema == named.collect_schema()
    assert frame["headers"][-1].to_list() == [{"key": k, "value": v} for k, v in given.items()]
    assert frame["headers"][0].to_list() == []
    assert named.select("headers").tail(1).collect()["headers"].list.len().to_list() == [2]
    begun_at.clear()
    assert named.select("value").collect().height == frame.height
    assert [columns for *_, columns in begun_at] == [["value"]]
    with pytest.raises(InvalidOptionError, match="headers must be"):
        commitlog.polars.scan(path, headers=1)  # type: ignore[arg-type]
