"""The division of slices among the partitions of a read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.spark.log_topic import LogTopic
from commitlog.spark.plan import LogPartition, partitions_of, tasks_for
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.slices import read_slices
from commitlog.spark.spark_topic import SparkTopic
from commitlog.spark.topics import open_topic
from tests.spark.logs_in_spark import archive, fill, numbered, schema


def _plan(topic: SparkTopic, least: int) -> list[LogPartition]:
    with topic:
        ranges = [(topic, topic.first, topic.end)]
        return partitions_of(
            ranges, least=least, parallelism=1, with_sequence=True, fail_on_data_loss=True
        )


def _found(plan: list[LogPartition]) -> list[Any]:
    return [
        row
        for part in plan
        for batch in read_slices(part.slices, schema("sequence", "value"))
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("least", [1, 2, 3, 5, 20, 1000])
def test_partitions_contain_each_record_once_in_order(tmp_path: Path, least: int) -> None:
    fill(tmp_path / "log", numbered(5000))
    plan = _plan(LogTopic("log", str(tmp_path / "log"), "flushed"), least)
    # 5000 records in segments of 512, with an index entry every 256 records, can be cut into 20
    # pieces.
    assert len(plan) == min(least, 20)
    assert _found(plan) == [
        {"sequence": at, "value": value} for at, value in enumerate(numbered(5000))
    ]


def test_partitions_differ_by_two_index_entries_at_most(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(20_000))
    for count in (2, 3, 4, 7, 16):
        plan = _plan(LogTopic("log", str(tmp_path / "log"), "flushed"), count)
        sizes = [sum(piece.read_bytes for piece in part.slices) for part in plan]
        assert len(sizes) == count
        # An index has an entry for every 256 records.
        assert max(sizes) <= min(sizes) + 2 * 256 * 120


@pytest.mark.parametrize(
    ("size_mib", "parallelism", "count"),
    [(1, 8, 1), (30, 8, 8), (30, 100, 8), (300, 2, 3), (1000, 100, 100)],
)
def test_task_count_is_bounded_by_size_and_parallelism(
    size_mib: int, parallelism: int, count: int
) -> None:
    assert tasks_for(size_mib << 20, 0, parallelism) == count


def test_small_segments_share_a_partition(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(5000))
    (part,) = _plan(LogTopic("log", str(tmp_path / "log"), "flushed"), 1)
    assert len(part.slices) == 10


def test_each_compressed_segment_is_one_partition(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(3000))
    place = archive(tmp_path / "log", tmp_path / "cold" / "log")
    plan = _plan(open_topic("log", str(place), ReadOptions(paths=(str(place),))), 20)
    assert [len(part.slices) for part in plan] == [1] * 5
    assert [row["sequence"] for row in _found(plan)] == list(range(5 * 512))


def test_segment_rolled_early_counts_only_its_record_bytes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64MiB") as log:
        for number in range(5):
            log.append(b"%d" % number)
            log.roll()
    plan = _plan(LogTopic("log", str(tmp_path / "log"), "flushed"), 1)
    assert sum(piece.read_bytes for part in plan for piece in part.slices) == 5 * 24
    assert [row["value"] for row in _found(plan)] == [b"%d" % number for number in range(5)]
