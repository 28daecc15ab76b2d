"""Plans that Spark uses again, where the session has no rule that gives each query its own."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

import commitlog
from commitlog import Store, replication
from commitlog.errors import LogNotFoundError, PositionError
from commitlog.spark.reader import FilteringReader, LogReader
from commitlog.spark.share import SharePartition
from tests.copies import copy_log
from tests.spark.logs_in_spark import SIZE, archive, fill, numbered
from tests.spark.test_store import store_log

SCHEMA = (
    StructType().add("topic", StringType()).add("sequence", LongType()).add("value", BinaryType())
)
COUNTS = StructType().add("count(*)", LongType(), nullable=False)
RULE = "commitlog.spark.ColumnPruning$TablesThatPrune"


class Frame:
    """A data frame that keeps the plan of its first query."""

    def __init__(self, path: object, schema: StructType = SCHEMA, **options: object) -> None:
        given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
        reader = LogReader(given, schema, 2, is_reused=True)
        self.parts = reader.partitions()
        assert all(isinstance(part, SharePartition) for part in self.parts)
        self._pickled = pickle.dumps((reader, self.parts))

    def rows(self) -> list[Any]:
        reader, parts = pickle.loads(self._pickled)
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    def values(self) -> list[bytes]:
        return [row["value"] for row in self.rows()]


@pytest.mark.parametrize("tasks", [1, 2, 7, 100])
def test_shares_have_each_record_once_also_later(tmp_path: Path, tasks: int) -> None:
    values = numbered(6000)
    fill(tmp_path / "log", values[:3000])
    frame = Frame(tmp_path / "log", minPartitions=tasks)
    assert len(frame.parts) == min(tasks, 12)
    assert frame.values() == values[:3000]
    fill(tmp_path / "log", values[3000:])
    rows = frame.rows()
    assert [row["value"] for row in rows] == values
    assert [row["sequence"] for row in rows] == list(range(6000))


def test_plan_over_an_empty_log_sees_its_first_record(tmp_path: Path) -> None:
    fill(tmp_path / "log", [])
    frame = Frame(tmp_path / "log")
    assert frame.values() == []
    fill(tmp_path / "log", [b"first"])
    assert frame.values() == [b"first"]


def test_retention_is_no_error_and_is_not_counted(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(3000))
    frame = Frame(tmp_path / "log", minPartitions=5)
    counted = Frame(tmp_path / "log", StructType(), minPartitions=5)
    assert (len(frame.rows()), len(counted.rows())) == (3000, 3000)
    with commitlog.open(tmp_path / "log") as log:
        log.delete_before(3 * SIZE)
    assert frame.values() == numbered(3000)[3 * 512 :]
    assert len(counted.rows()) == 3000 - 3 * 512


def test_bounds_of_a_read_still_hold(tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(3000))
    bounds = {
        "startingOffsets": f'{{"log": {{"0": {positions[100]}}}}}',
        "endingTimestamp": 2_500_000,
    }
    frame = Frame(tmp_path / "log", minPartitions=3, **bounds)
    assert frame.values() == numbered(3000)[100:2499]
    fill(tmp_path / "log", [b"later"], first_ns=5000 * 10**9)
    assert frame.values() == numbered(3000)[100:2499]
    assert Frame(tmp_path / "log", startingOffsets="latest").values() == []


def test_time_bound_beyond_the_end_admits_later_records(tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"a", b"b"])
    frame = Frame(tmp_path / "log", endingTimestamp=10_000)
    fill(tmp_path / "log", [b"c"], first_ns=9 * 10**9)
    fill(tmp_path / "log", [b"d"], first_ns=10 * 10**9)
    assert frame.values() == [b"a", b"b", b"c"]


def test_log_created_again_is_read_whole(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(3000))
    frame = Frame(tmp_path / "log", minPartitions=4)
    shutil.rmtree(tmp_path / "log")
    fill(tmp_path / "log", numbered(2000, length=50))
    assert frame.values() == numbered(2000, length=50)
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(LogNotFoundError):
        frame.values()


def test_logs_that_match_later_are_read(tmp_path: Path) -> None:
    fill(tmp_path / "a", numbered(2000))
    fill(tmp_path / "c", [b"c"])
    fill(tmp_path / "d", [])
    frame = Frame(tmp_path, subscribePattern=".*", minPartitions=3)
    assert sorted(frame.values()) == [*numbered(2000), b"c"]
    fill(tmp_path / "a", [b"more"])
    fill(tmp_path / "b", [b"b"])
    fill(tmp_path / "c", [b"cc"])
    fill(tmp_path / "d", [b"d"])
    assert sorted(frame.values()) == sorted([*numbered(2000), b"more", b"b", b"c", b"cc", b"d"])
    shutil.rmtree(tmp_path / "c")
    assert sorted(frame.values()) == sorted([*numbered(2000), b"more", b"b", b"d"])


def test_store_and_archive_are_listed_by_each_query(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    values = numbered(3000)
    target = tmp_path / "store" / "log"
    store_log(tmp_path / "log", target, values[:1500])
    stored = Frame(target, minPartitions=3)
    cold = Frame(archive(tmp_path / "log", tmp_path / "cold" / "log"), minPartitions=3)
    assert stored.values() == values[:1500]
    kept = len(cold.values())
    store_log(tmp_path / "log", target, values[1500:])
    archive(tmp_path / "log", tmp_path / "cold" / "log")
    assert stored.values() == values
    assert len(cold.values()) > kept


def test_segments_that_moved_to_the_store_are_read_there(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    target = tmp_path / "store"
    store_log(tmp_path / "log", target, numbered(2000))
    frame = Frame(tmp_path / "log", store=target, minPartitions=3)
    with commitlog.open(tmp_path / "log", store=Store(target)) as log:
        log.delete_before(2 * SIZE)
        assert log.first_position > SIZE
    assert frame.values() == numbered(2000)


def test_server_is_asked_by_each_query(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(2000))
    with replication.serve(tmp_path / "log") as server:
        frame = Frame(server.url("log"), minPartitions=3)
        assert frame.values() == numbered(2000)
        with commitlog.open(tmp_path / "log") as log:
            log.append(b"later")
            log.flush()
            assert frame.values() == [*numbered(2000), b"later"]


def test_plan_of_one_query_does_not_count_deleted_segments(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(3000))
    options = {"path": str(tmp_path / "log"), "minPartitions": "3"}
    for schema in (StructType(), COUNTS, StructType().add("sequence", LongType())):
        readers = [
            kind({**options, "failOnDataLoss": fails}, schema)
            for kind in (LogReader, FilteringReader)
            for fails in ("true", "false")
        ]
        plans = [(reader, reader.partitions()) for reader in readers]
        copy_log(tmp_path / "log", tmp_path / "kept")
        (tmp_path / "log" / f"{0:020d}.seg").unlink()
        for reader, parts in plans:
            if reader._options.fail_on_data_loss:
                with pytest.raises(PositionError, match="deleted before it was read"):
                    _count(reader, parts, schema)
            else:
                assert _count(reader, parts, schema) == 3000 - 512
        shutil.rmtree(tmp_path / "log")
        (tmp_path / "kept").rename(tmp_path / "log")


def _count(reader: LogReader, parts: Any, schema: StructType) -> int:
    batches = [batch for part in parts for batch in reader.read(part)]
    if schema is COUNTS:
        return sum(batch[0][0].as_py() for batch in batches)
    return sum(batch.num_rows for batch in batches)


@pytest.fixture
def bare(spark: Any) -> Iterator[Any]:
    """A session that found the format by itself, and that does not run the rule."""
    made = spark.newSession()
    made.conf.set("spark.sql.optimizer.excludedRules", RULE)
    return made


def test_data_frame_and_view_see_later_records(bare: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    frame = bare.read.format("commitlog").load(str(path))
    bare.sql(f"CREATE TEMPORARY VIEW records USING commitlog OPTIONS (path '{path}')")
    few = bare.read.schema("sequence long").format("commitlog").load(str(path))

    def counts() -> set[int]:
        (viewed,) = bare.sql("SELECT count(*) FROM records").first()
        return {frame.count(), len(frame.collect()), viewed, few.count()}

    assert counts() == {1500}
    assert frame.where("sequence >= 1490").count() == 10
    fill(path, numbered(1600)[1500:])
    assert counts() == {1600}
    assert frame.where("sequence >= 1490").count() == 110
    with commitlog.open(path) as log:
        log.delete_before(2 * SIZE)
    assert counts() == {1600 - 2 * 512}
