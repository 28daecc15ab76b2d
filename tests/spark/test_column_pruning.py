"""Reads of the columns that a query needs, and counts without reading records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructType

import commitlog
from commitlog.spark import register
from commitlog.spark.plan import LogPartition
from commitlog.spark.reader import LogReader
from commitlog.spark.registration import register_source
from tests.conftest import ROOT
from tests.spark.logs_in_spark import archive, fill, numbered, rows

RECORDS = 2000
COUNTS = StructType().add("count(*)", LongType(), nullable=False)  # what the rule requests


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A log of four segments, and the positions of its records."""
    path = tmp_path_factory.mktemp("pruning") / "orders"
    return path, fill(path, numbered(RECORDS))


def _scanned(frame: Any) -> str:
    """The part of the physical plan that names the columns of the scan."""
    plan = str(frame._jdf.queryExecution().executedPlan())
    return plan[plan.index("BatchScan") :].splitlines()[0]


def _count(reader: LogReader) -> tuple[int, int]:
    """The rows of all partitions, and how many of them the plan counts."""
    parts = [part for part in reader.partitions() if isinstance(part, LogPartition)]
    found = sum(batch.num_rows for part in parts for batch in reader.read(part))
    return found, sum(piece.records or 0 for part in parts for piece in part.slices)


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_count_of_a_log_reads_no_record(log: tuple[Path, list[int]], cores: int) -> None:
    options = {"path": str(log[0]), "minPartitions": str(cores)}
    assert _count(LogReader(options, StructType())) == (RECORDS, RECORDS)


def test_sequences_of_a_log_read_no_record(log: tuple[Path, list[int]]) -> None:
    options = {"path": str(log[0]), "minPartitions": "3"}
    reader = LogReader(options, StructType().add("sequence", LongType()))
    assert _count(reader) == (RECORDS, RECORDS)
    parts = reader.partitions()
    found = [row for part in parts for batch in reader.read(part) for row in batch[0].to_pylist()]
    assert found == list(range(RECORDS))


@pytest.mark.parametrize(("first", "last"), [(100, 1900), (0, 1), (511, 1025)])
@pytest.mark.parametrize("shift", [-8, 0, 8])
def test_count_between_positions_is_exact(
    log: tuple[Path, list[int]], first: int, last: int, shift: int
) -> None:
    path, positions = log
    bounds = [max(positions[number] + shift, positions[0]) for number in (first, last)]
    options = {
        "path": str(path),
        "startingOffsets": f'{{"orders": {{"0": {bounds[0]}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {bounds[1]}}}}}',
    }
    wanted = sum(bounds[0] <= position < bounds[1] for position in positions)
    assert _count(LogReader(options, StructType()))[0] == wanted


def test_count_of_an_archive_reads_no_sealed_segment(
    log: tuple[Path, list[int]], tmp_path: Path
) -> None:
    made = archive(log[0], tmp_path / "archive")
    wanted = len(rows("offset", path=made))
    assert _count(LogReader({"path": str(made)}, StructType())) == (wanted, wanted)


def test_count_that_skips_damage_reads_the_records(tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(RECORDS))
    with (tmp_path / "log" / f"{0:020d}.seg").open("r+b") as file:
        file.seek(positions[5] + 30)
        file.write(b"damaged")
    options = {"path": str(tmp_path / "log")}
    assert _count(LogReader(options, StructType())) == (RECORDS, RECORDS)
    skipping = LogReader({**options, "onDamage": "skip"}, StructType())
    assert _count(skipping) == (RECORDS - 1, 0)


def _counted_rows(reader: LogReader) -> list[int]:
    """The rows of a scan that only counts, one for each task."""
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch[0].to_pylist()]


def test_pushed_count_adds_up_what_is_known_in_one_task(log: tuple[Path, list[int]]) -> None:
    options = {"path": str(log[0]), "minPartitions": "3"}
    assert _counted_rows(LogReader(options, COUNTS)) == [RECORDS]


def test_pushed_count_that_skips_damage_reads_the_records(tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(RECORDS))
    with (tmp_path / "log" / f"{0:020d}.seg").open("r+b") as file:
        file.seek(positions[5] + 30)
        file.write(b"damaged")
    options = {"path": str(tmp_path / "log"), "minPartitions": "3"}
    assert _counted_rows(LogReader(options, COUNTS)) == [RECORDS]
    found = _counted_rows(LogReader({**options, "onDamage": "skip"}, COUNTS))
    assert len(found) >= 3
    assert sum(found) == RECORDS - 1


def test_spark_gets_a_count_and_no_rows(spark: Any, log: tuple[Path, list[int]]) -> None:
    path, positions = log
    reader = spark.read.format("commitlog")
    frame, only_values = (
        reader.load(str(path)),
        reader.schema("value binary").load(str(path)),
    )
    for counted in (frame, only_values):
        assert re.search(r"commitlog\[count\(\*\)#[0-9]+L\]", _scanned(counted.groupBy().count()))
        assert counted.count() == RECORDS
    late = frame.where(f.col("offset") >= positions[1990])
    by_partition = frame.groupBy("partition").count()
    both = frame.agg(f.count("*"), f.count("key"))
    for other in (late.groupBy().count(), by_partition, both, frame.limit(7).groupBy().count()):
        assert "count(*)" not in _scanned(other)
    assert (late.count(), by_partition.collect()) == (10, [(0, RECORDS)])
    assert (both.first(), frame.limit(7).count()) == ((RECORDS, 0), 7)


def test_count_of_an_empty_log_is_zero(spark: Any, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    assert spark.read.format("commitlog").load(str(tmp_path / "log")).count() == 0


def test_spark_reads_only_the_needed_columns(spark: Any, log: tuple[Path, list[int]]) -> None:
    path, positions = log
    frame = spark.read.format("commitlog").load(str(path))
    constant = frame.select(f.lit(1))
    assert re.search(r"commitlog\[partition#[0-9]+\]", _scanned(constant))
    assert len(constant.collect()) == RECORDS
    values = frame.select("value")
    assert _scanned(values).count("#") == 1
    assert [bytes(row.value) for row in values.sort("value").collect()] == numbered(RECORDS)
    later = frame.where(f.col("offset") >= positions[1500]).select("sequence")
    assert _scanned(later).count("#") == 2
    assert sorted(row.sequence for row in later.collect()) == list(range(1500, RECORDS))
    assert frame.agg(f.max("sequence"), f.sum("partition")).first() == (RECORDS - 1, 0)
    assert len(frame.first()) == len(frame.columns) == 9


def test_filter_of_one_query_stays_out_of_the_next(spark: Any, log: tuple[Path, list[int]]) -> None:
    path, positions = log
    frame = spark.read.format("commitlog").load(str(path))
    late = frame.where(f.col("offset") >= positions[1990])
    assert "Filter (" not in str(late._jdf.queryExecution().executedPlan())
    assert late.count() == 10
    assert frame.count() == RECORDS
    assert len(frame.collect()) == RECORDS
    assert len(late.collect()) == 10
    assert frame.join(late, "offset").count() == 10


def test_count_sees_records_appended_since_the_last(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", flush="sync") as writer:
        writer.append(b"one")
        frame = spark.read.format("commitlog").load(str(tmp_path / "log"))
        assert frame.count() == 1
        writer.append(b"two")
        assert frame.count() == 2


def test_session_registered_twice_has_one_rule(spark: Any) -> None:
    register(spark)
    rules = spark._jsparkSession.extensions().buildOptimizerRules(spark._jsparkSession)
    assert str(rules).count("commitlog.spark.ColumnPruning") == 1


def test_filters_stay_with_spark_if_columns_cannot_be_pruned(
    spark: Any, log: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, positions = log
    monkeypatch.setattr("commitlog.spark.registration._prune_columns", lambda session: False)
    other = spark.newSession()
    try:
        register_source(other)
        frame = other.read.format("commitlog").load(str(path))
        late = frame.where(f.col("offset") >= positions[1990])
        assert "Filter (" in str(late._jdf.queryExecution().executedPlan())
        assert (late.count(), frame.count()) == (10, RECORDS)
    finally:
        register_source(spark)


def test_rule_is_part_of_the_package() -> None:
    assert '"*.java"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
