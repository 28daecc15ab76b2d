"""Batch reads in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException

import commitlog
from tests.spark.logs_in_spark import SIZE, archive, fill, numbered

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def _read(spark: Any, path: object, **options: object) -> Any:
    return (
        spark.read.format("commitlog")
        .options(**{name: str(value) for name, value in options.items()})
        .load(str(path))
    )


def _values(spark: Any, path: object, **options: object) -> list[bytes]:
    return sorted(
        bytes(row.value) for row in _read(spark, path, **options).select("value").collect()
    )


def test_schema_begins_with_kafka_columns(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"x"])
    types = dict(_read(spark, tmp_path / "log").dtypes)
    assert list(types) == [*KAFKA, "sequence", "type"]
    assert [types[name] for name in KAFKA] == [
        "binary",
        "binary",
        "string",
        "int",
        "bigint",
        "timestamp",
        "int",
    ]


def test_rows_are_the_records(spark: Any, tmp_path: Path) -> None:
    positions = fill(tmp_path / "orders", [b"a", b"", b"c"], keys=[b"k", None, b""])
    found = _read(spark, tmp_path / "orders").orderBy("offset").collect()
    assert [(row.key, row.value, row.offset, row.sequence) for row in found] == [
        (b"k", b"a", positions[0], 0),
        (None, b"", positions[1], 1),
        (b"", b"c", positions[2], 2),
    ]
    assert {(row.topic, row.partition, row.timestampType, row.type) for row in found} == {
        ("orders", 0, 0, 0)
    }
    assert [row.timestamp.timestamp() for row in found] == [1, 2, 3]


def test_empty_log_has_no_rows(spark: Any, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    assert _read(spark, tmp_path / "log").count() == 0


def test_min_partitions_splits_a_log_inside_segments(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(2000))
    frame = _read(spark, tmp_path / "log", minPartitions=5)
    assert frame.rdd.getNumPartitions() >= 5
    assert [(row.sequence, bytes(row.value)) for row in frame.orderBy("offset").collect()] == list(
        enumerate(numbered(2000))
    )


def test_narrower_schema_selects_columns_by_name(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"a"])
    frame = (
        spark.read.format("commitlog")
        .schema("sequence bigint, value binary")
        .load(str(tmp_path / "log"))
    )
    assert frame.collect() == [(0, b"a")]


def test_topic_column_distinguishes_several_logs(spark: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        fill(tmp_path / name, [name.encode()] * 3)
    counted = (
        _read(spark, tmp_path, subscribe="a,b")
        .groupBy("topic", "value")
        .count()
        .orderBy("topic")
        .collect()
    )
    assert counted == [("a", b"a", 3), ("b", b"b", 3)]
    listed = spark.read.format("commitlog").load([str(tmp_path / "a"), str(tmp_path / "b")])
    assert listed.count() == 6


def test_sql_reads_a_log_through_a_view(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(10))
    _read(spark, tmp_path / "log").createOrReplaceTempView("records")
    assert spark.sql("SELECT count(*), max(sequence) FROM records").collect() == [(10, 9)]


def test_catalog_table_error_names_the_alternatives(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(10))
    options = f"OPTIONS (path '{tmp_path}/log')"
    spark.sql(f"CREATE TABLE log_table USING commitlog {options}")
    try:
        with pytest.raises(
            AnalysisException, match=r"SELECT ... FROM table WITH \(path = .*CREATE TEMPORARY VIEW"
        ):
            spark.sql("SELECT * FROM log_table").collect()
        found = spark.sql(
            f"SELECT count(*), max(sequence) FROM log_table WITH (path = '{tmp_path}/log')"
        ).collect()
    finally:
        spark.sql("DROP TABLE log_table")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW log_view USING commitlog {options}")
    assert found == spark.sql("SELECT count(*), max(sequence) FROM log_view").collect() == [(10, 9)]


def test_offset_and_timestamp_options_bound_a_read(spark: Any, tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(1500), first_ns=0)
    between = {
        "startingOffsets": f'{{"log": {{"0": {positions[700]}}}}}',
        "endingOffsets": f'{{"log": {{"0": {positions[900]}}}}}',
    }
    assert _values(spark, tmp_path / "log", **between) == numbered(1500)[700:900]
    assert (
        _values(spark, tmp_path / "log", startingTimestamp=700_000, endingTimestamp=900_000)
        == numbered(1500)[700:900]
    )
    assert _values(spark, tmp_path / "log", startingOffsets="latest") == []


def test_log_with_open_writer_is_read_up_to_durable_end(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", flush_interval="1h") as log:
        log.append(b"durable")
        log.flush()
        log.append(b"not yet")
        assert _values(spark, tmp_path / "log") == [b"durable"]
        assert _values(spark, tmp_path / "log", visibility="committed") == [b"durable", b"not yet"]


def test_read_of_archive_returns_its_records(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    target = archive(tmp_path / "log", tmp_path / "cold" / "log")
    assert _values(spark, target) == numbered(1500)[:1024]


def test_damage_error_names_segment_and_position(spark: Any, tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(1500))
    file = tmp_path / "log" / f"{SIZE:020d}.seg"
    content = bytearray(file.read_bytes())
    content[positions[800] - SIZE + 40] ^= 1
    file.write_bytes(content)
    with pytest.raises(
        PythonException, match=f"onDamage=skip .*{file.name}, position {positions[800]}"
    ):
        _values(spark, tmp_path / "log")
    assert len(_values(spark, tmp_path / "log", onDamage="skip")) == 1499


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": '{"other": {"0": 0}}'}, "startingOffsets names 'other'"),
        (
            {"startingOffsets": '{"log": {"0": 10000000}}'},
            "startingOffsets has 10000000 for log, and the log ends at",
        ),
        (
            {"endingOffsets": '{"log": {"0": 10000000}}'},
            "endingOffsets has 10000000 for log, and the log ends at",
        ),
        ({"startingTimestamp": "99999999999999"}, "startingOffsetsByTimestampStrategy=latest"),
        ({"kafka.bootstrap.servers": "x"}, "there is no broker"),
    ],
)
def test_impossible_read_raises_with_the_reason(
    spark: Any, tmp_path: Path, options: dict[str, str], says: str
) -> None:
    fill(tmp_path / "log", [b"x"])
    with pytest.raises(AnalysisException, match=says):
        _read(spark, tmp_path / "log", **options).collect()


def test_missing_path_raises(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="there is no log here"):
        _read(spark, tmp_path / "missing").collect()


def test_schema_with_wrong_type_raises(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"x"])
    with pytest.raises(
        AnalysisException, match="value as string, and a commit log has it as binary"
    ):
        spark.read.format("commitlog").schema("value string").load(str(tmp_path / "log")).collect()


def test_fail_on_data_loss_false_clamps_offsets_to_the_log(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"x"])
    beyond = {
        "startingOffsets": '{"log": {"0": 0}}',
        "endingOffsets": '{"log": {"0": 10000000}}',
        "failOnDataLoss": "false",
    }
    assert _values(spark, tmp_path / "log", **beyond) == [b"x"]
    assert (
        _values(
            spark,
            tmp_path / "log",
            startingTimestamp=10**14,
            startingOffsetsByTimestampStrategy="latest",
        )
        == []
    )


def test_deleted_segments_raise_or_are_skipped(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SIZE) as log:
        for value in numbered(2500):
            log.append(value)
        log.flush()
        log.delete_before(2 * SIZE)
    start = {"startingOffsets": f'{{"log": {{"0": {SIZE + 4096}}}}}'}
    with pytest.raises(
        AnalysisException, match=f"retention has deleted the log's records before {2 * SIZE}"
    ):
        _values(spark, tmp_path / "log", **start)
    assert (
        _values(spark, tmp_path / "log", **start, failOnDataLoss="false") == numbered(2500)[1024:]
    )


def test_headers_are_a_column_on_request(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SIZE) as log:
        log.append(b"a")
        log.append(b"b", headers={"n": b"1", "z": b""})
    found = _read(spark, tmp_path / "log", includeHeaders="true")
    assert found.columns == [*KAFKA, "sequence", "type", "headers"]
    assert dict(found.dtypes)["headers"] == "array<struct<key:string,value:binary>>"
    rows = found.orderBy("offset").select("value", "headers").collect()
    assert rows[0].headers is None
    assert [(each.key, bytes(each.value)) for each in rows[1].headers] == [("n", b"1"), ("z", b"")]
    assert found.where("headers[0].value = '1'").count() == 1
    assert "headers" not in _read(spark, tmp_path / "log").columns
