"""Spark reads stores of logs: whole segments and parts, alone or below a live log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Store, replication
from commitlog.base.polling import attempts
from commitlog.errors import InvalidOptionError, NotALogError, PositionError
from commitlog.log.parts import parts_of
from commitlog.spark.slices import read_slices
from tests.spark.logs_in_spark import SIZE, archive, fill, numbered, rows, schema, slices
from tests.spark.test_stream import Query
from tests.stores.s3_server import S3Server, served_bucket

pytest.importorskip("zstandard")
LIMIT_S = 30.0
COUNT = 2000
VALUES = numbered(COUNT)


def store_log(path: Path, target: Any, values: list[bytes], *, drop: bool = False) -> None:
    """Append values to a log with a store until the store has them; then delete, if `drop`, the
    stored segments from the disk.
    """
    with commitlog.open(path, segment_size=SIZE, store=Store(target, every="10ms")) as log:
        first = log.count()
        for number, value in enumerate(values, first):
            log.append(value, timestamp_ns=(number + 1) * 10**9)
        if not drop:
            return  # a close waits for the store
        log.flush()
        writer = parts_of(log).writer
        assert writer is not None
        assert writer.store is not None
        goal = (log.tail_position // SIZE - 1) * SIZE
        for _ in attempts(LIMIT_S, "the store"):
            if writer.store.kept_position >= goal:
                break
        log.delete_before(goal)
        assert log.first_position > SIZE


def without_place(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the topic, which is the name of the folder."""
    return [{name: row[name] for name in row if name != "topic"} for row in found]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store_log(tmp_path / "orders", tmp_path / "store", VALUES)
    return tmp_path / "store"


OPTIONS: list[dict[str, object]] = [
    {},
    {"startingOffsets": "earliest", "minPartitions": 7},
    {"startingTimestamp": 1_500_000},
    {"startingTimestamp": 700_000, "endingTimestamp": 900_000},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_slices_of_a_store_have_the_rows_of_the_log(
    store: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    near = rows(path=tmp_path / "orders", **options)
    assert near
    assert without_place(rows(path=store, **options)) == without_place(near)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("where", ["disk", "server"])
def test_live_log_with_a_store_is_read_from_its_oldest_record(
    tmp_path: Path, where: str, options: dict[str, object]
) -> None:
    whole, dropped, target = tmp_path / "whole", tmp_path / "orders", tmp_path / "store"
    fill(whole, VALUES)
    store_log(dropped, target, VALUES, drop=True)
    expected = without_place(rows(path=whole, **options))
    if where == "disk":
        found = rows(path=dropped, store=target, **options)
    else:
        with replication.serve(dropped) as server:
            found = rows(path=server.url("orders"), store=target, **options)
    kept = ("sequence", "value", "timestamp")
    assert [[row[name] for name in kept] for row in found] == [
        [row[name] for name in kept] for row in expected
    ]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    with served_bucket(monkeypatch) as server:
        yield server


def test_store_in_a_bucket_is_read(bucket: S3Server, tmp_path: Path) -> None:
    store_log(tmp_path / "orders", "s3://bucket/orders", VALUES)
    found = rows(path="s3://bucket/orders")
    assert [row["value"] for row in found] == VALUES
    assert [row["sequence"] for row in found] == list(range(COUNT))
    assert [row["value"] for row in rows(path="s3://bucket", subscribe="orders")] == VALUES


def test_task_reads_the_segment_that_has_replaced_parts(store: Path, tmp_path: Path) -> None:
    planned = list(slices(path=store))
    store_log(tmp_path / "orders", store, VALUES)
    batches = read_slices(planned, schema("value"))
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == VALUES


def test_task_for_a_segment_gone_from_the_store_raises(store: Path) -> None:
    planned = list(slices(path=store))
    for path in sorted(store.glob("*.seg.zst"))[:1]:
        path.unlink()
    with pytest.raises(PositionError, match="deleted before it was read"):
        list(read_slices(planned, schema("value")))


def test_store_of_no_live_log_is_refused(store: Path, tmp_path: Path) -> None:
    archived = archive(tmp_path / "orders", tmp_path / "archive")
    with pytest.raises(InvalidOptionError, match="for a live log"):
        rows(path=archived, store=store)
    fill(tmp_path / "logs" / "a", numbered(3))
    fill(tmp_path / "logs" / "b", numbered(3))
    with pytest.raises(InvalidOptionError, match="the store of one log"):
        rows(path=tmp_path / "logs", subscribe="a,b", store=store)


def test_store_of_another_log_is_refused(store: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "orders")
    fill(tmp_path / "orders", VALUES)
    with pytest.raises(NotALogError):
        rows(path=tmp_path / "orders", store=store)


def test_batch_query_reads_a_store_and_a_live_log_with_it(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "store"
    store_log(tmp_path / "orders", target, VALUES, drop=True)
    for path, options in ((target, {}), (tmp_path / "orders", {"store": str(target)})):
        frame = spark.read.format("commitlog").options(minPartitions=3, **options).load(str(path))
        found = frame.select("sequence", "value").collect()
        assert sorted(row.sequence for row in found) == list(range(COUNT))
        assert {bytes(row.value) for row in found} == set(VALUES)


def test_streaming_query_follows_a_store(store: Path, spark: Any, tmp_path: Path) -> None:
    first = Query(spark, store, tmp_path / "checkpoint", maxOffsetsPerTrigger=1100)
    first.run()
    assert [len(batch) for batch in first.batches] == [1100, 900]
    later = numbered(COUNT + 300)[COUNT:]
    store_log(tmp_path / "orders", store, later)
    second = Query(spark, store, tmp_path / "checkpoint")
    second.run()
    assert second.values == later
