"""The offsets, the admission and the plan of a stream, without Spark's engine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import BinaryType, LongType, StructType

import commitlog
from commitlog.errors import InvalidOptionError, LogNotFoundError, PositionError
from commitlog.spark.stream import LogStreamReader
from tests.spark.logs_in_spark import SIZE, archive, fill, numbered

SCHEMA = StructType().add("value", BinaryType()).add("sequence", LongType())
ALL = ReadAllAvailable()


class Streams:
    """Creates readers and stops them at the end of the test."""

    def __init__(self) -> None:
        self._made: list[LogStreamReader] = []

    def __call__(self, path: object, **options: object) -> LogStreamReader:
        given = {
            "startingOffsets": "earliest",
            **{name: str(value) for name, value in options.items()},
        }
        self._made.append(LogStreamReader({"path": str(path), **given}, SCHEMA))
        return self._made[-1]

    def stop(self) -> None:
        for reader in self._made:
            reader.stop()


@pytest.fixture
def stream() -> Iterator[Streams]:
    made = Streams()
    yield made
    made.stop()


def _positions(offset: Any) -> dict[str, int]:
    return {name: partitions["0"] for name, partitions in offset.items()}


def _read(reader: LogStreamReader, start: Any, end: Any) -> list[bytes]:
    on_executor = pickle.loads(pickle.dumps(reader))
    return [
        row["value"]
        for part in reader.partitions(start, end)
        for batch in on_executor.read(part)
        for row in batch.to_pylist()
    ]


def _batches(reader: LogStreamReader, place: Any = None) -> list[list[bytes]]:
    """Read batch by batch with the reader's default limit until no batch is left; return the
    batches.
    """
    found = []
    place = reader.initialOffset() if place is None else place
    while (end := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
        found.append(_read(reader, place, end))
        place = end
    return found


def test_batch_contains_all_new_records(tmp_path: Path, stream: Streams) -> None:
    reader = stream(tmp_path / "log")
    fill(tmp_path / "log", numbered(100))
    start = reader.initialOffset()
    assert list(start) == ["log"]
    assert list(start["log"]) == ["0", "uuid"]
    end = reader.latestOffset(start, ALL)
    assert _read(reader, start, end) == numbered(100)
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_starting_offsets_latest_begins_at_the_end(tmp_path: Path, stream: Streams) -> None:
    with commitlog.open(tmp_path / "log", flush="sync") as log:
        log.append(b"before")
        reader = stream(tmp_path / "log", startingOffsets="latest")
        start = reader.initialOffset()
        log.append(b"after")
        assert reader.initialOffset() == start
        assert _read(reader, start, reader.latestOffset(start, ALL)) == [b"after"]


def test_stream_offers_only_durable_records_by_default(tmp_path: Path, stream: Streams) -> None:
    with commitlog.open(tmp_path / "log", flush_interval="1h") as log:
        log.append(b"durable")
        log.flush()
        log.append(b"not yet")
        assert _batches(stream(tmp_path / "log")) == [[b"durable"]]
        assert _batches(stream(tmp_path / "log", visibility="committed")) == [
            [b"durable", b"not yet"]
        ]


def test_waiting_stream_makes_an_async_writer_flush(
    tmp_path: Path, stream: Streams, until: Any
) -> None:
    with commitlog.open(
        tmp_path / "log",
        flush_interval=0.002,
        tuning=commitlog.Tuning(flush_thorough_interval="1h"),
    ) as log:
        reader = stream(tmp_path / "log", startingOffsets="latest")
        place = reader.initialOffset()
        log.append(b"little")
        until(lambda: reader.latestOffset(place, ALL) != place)
        assert _read(reader, place, reader.latestOffset(place, ALL)) == [b"little"]


def test_offsets_remain_valid_across_rolls(tmp_path: Path, stream: Streams) -> None:
    reader = stream(tmp_path / "log")
    place, found = None, []
    with commitlog.open(tmp_path / "log", segment_size=SIZE, flush="sync") as log:
        for turn in range(6):
            for value in numbered(1800)[turn * 300 : (turn + 1) * 300]:
                log.append(value, sync=False)
            log.flush()
            place = reader.initialOffset() if place is None else place
            end = reader.latestOffset(place, ALL)
            found += _read(reader, place, end)
            place = end
    assert found == numbered(1800)


def test_closed_log_is_followed_once_a_writer_opens_it(
    tmp_path: Path, stream: Streams, until: Any
) -> None:
    fill(tmp_path / "log", [b"before"])
    (tmp_path / "log" / "cursors").unlink()
    reader = stream(tmp_path / "log")
    start = reader.initialOffset()
    place = reader.latestOffset(start, ALL)
    assert _read(reader, start, place) == [b"before"]
    with commitlog.open(tmp_path / "log", flush="sync") as log:
        log.append(b"after")
        until(lambda: reader.latestOffset(place, ALL) != place)
        assert _read(reader, place, reader.latestOffset(place, ALL)) == [b"after"]


def test_starting_offset_between_records_moves_to_the_next(tmp_path: Path, stream: Streams) -> None:
    positions = fill(tmp_path / "log", numbered(10))
    reader = stream(tmp_path / "log", startingOffsets=f'{{"log": {{"0": {positions[4] + 1}}}}}')
    assert _positions(reader.initialOffset()) == {"log": positions[5]}


def test_starting_timestamp_begins_at_first_later_record(tmp_path: Path, stream: Streams) -> None:
    positions = fill(tmp_path / "log", numbered(10), first_ns=0)
    reader = stream(tmp_path / "log", startingTimestamp=3000)
    assert _positions(reader.initialOffset()) == {"log": positions[3]}


# --- admission ------------------------------------------------------------------------------------


def test_max_offsets_per_trigger_bounds_each_batch(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(1000))
    reader = stream(tmp_path / "log", maxOffsetsPerTrigger=300)
    assert reader.getDefaultReadLimit() == ReadMaxRows(300)
    found = _batches(reader)
    assert [len(batch) for batch in found] == [300, 300, 300, 100]
    assert list(chain.from_iterable(found)) == numbered(1000)


def test_read_all_available_overrides_the_limit(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(1000))
    reader = stream(tmp_path / "log", maxOffsetsPerTrigger=300)
    start = reader.initialOffset()
    assert _read(reader, start, reader.latestOffset(start, ALL)) == numbered(1000)


def test_limit_is_divided_in_proportion_to_backlogs(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "a", [b"a"] * 900)
    fill(tmp_path / "b", [b"b"] * 90)
    fill(tmp_path / "c", [b"c"])
    (first, *others) = _batches(stream(tmp_path, subscribePattern=".*", maxOffsetsPerTrigger=100))
    assert len(first) == 100
    assert 85 <= first.count(b"a") <= 95
    assert sorted(chain(first, *others)) == [b"a"] * 900 + [b"b"] * 90 + [b"c"]


def test_max_bytes_bounds_each_batch_but_allows_one_record(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", [b"x" * 984] * 20)
    assert [
        len(batch)
        for batch in _batches(stream(tmp_path / "log", maxBytesPerTrigger=5 * 1000 + 4096))
    ] == [5, 9, 6]
    reader = stream(tmp_path / "log", maxBytesPerTrigger=10)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(10)
    assert [len(batch) for batch in _batches(reader)] == [1] * 20


def test_small_max_bytes_per_trigger_crosses_a_roll(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(1100))
    assert list(
        chain.from_iterable(_batches(stream(tmp_path / "log", maxBytesPerTrigger=2000)))
    ) == numbered(1100)


def test_min_offsets_per_trigger_waits_up_to_max_delay(
    tmp_path: Path, stream: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("commitlog.spark.stream.time.monotonic", lambda: now)
    with commitlog.open(tmp_path / "log", flush="sync") as log:
        log.append(b"first")
        reader = stream(tmp_path / "log", minOffsetsPerTrigger=3, maxTriggerDelay="10s")
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMinRows(3)
        # The first batch of a new query does not wait.
        start = reader.initialOffset()
        place = reader.latestOffset(start, limit)
        assert _read(reader, start, place) == [b"first"]
        log.append(b"second")
        log.append(b"third")
        assert reader.latestOffset(place, limit) == place
        log.append(b"fourth")
        end = reader.latestOffset(place, limit)
        assert _read(reader, place, end) == [b"second", b"third", b"fourth"]
        log.append(b"fifth")
        assert reader.latestOffset(end, limit) == end
        now += 11
        assert _read(reader, end, reader.latestOffset(end, limit)) == [b"fifth"]


def test_available_now_ignores_later_records(tmp_path: Path, stream: Streams) -> None:
    with commitlog.open(tmp_path / "log", flush="sync") as log:
        for value in numbered(5):
            log.append(value)
        reader = stream(tmp_path / "log", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
        reader.prepareForTriggerAvailableNow()
        log.append(b"later")
        assert _batches(reader) == [numbered(5)[:2], numbered(5)[2:4], numbered(5)[4:]]
        assert _positions(reader.reportLatestOffset()) == {"log": log.flushed_position}


def test_polling_an_idle_log_opens_no_file(
    tmp_path: Path, stream: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", numbered(1500))
    reader = stream(tmp_path / "log", maxOffsetsPerTrigger=10_000)
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)

    def refuse(*arguments: object, **others: object) -> None:
        raise AssertionError("a poll must not touch the disk")

    monkeypatch.setattr("commitlog.spark.log_topic.LOOK_S", 3600.0)
    with monkeypatch.context() as patch:
        for call in ("open", "listdir", "scandir", "stat"):
            patch.setattr(os, call, refuse)
        found = reader.latestOffset(end, limit)
    assert found == end


# --- retention and other losses -------------------------------------------------------------------


def _overtaken(path: Path) -> None:
    with commitlog.open(path, segment_size=SIZE) as log:
        for value in numbered(2500):
            log.append(value)
        log.flush()
        log.delete_before(2 * SIZE)


def test_stream_overtaken_by_retention_raises(tmp_path: Path, stream: Streams) -> None:
    _overtaken(tmp_path / "log")
    reader = stream(tmp_path / "log")
    start = {"log": {"0": 4096}}
    with pytest.raises(
        PositionError,
        match=f"deleted records .* before this query read them, positions 4096 to {2 * SIZE}:",
    ):
        reader.partitions(start, reader.latestOffset(start, ALL))


@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": 500}])
def test_fail_on_data_loss_false_skips_deleted_records(
    tmp_path: Path, stream: Streams, limits: dict[str, int]
) -> None:
    _overtaken(tmp_path / "log")
    reader = stream(tmp_path / "log", failOnDataLoss="false", **limits)
    assert (
        list(chain.from_iterable(_batches(reader, {"log": {"0": 4096}}))) == numbered(2500)[1024:]
    )


def test_checkpoint_beyond_the_end_of_the_log_raises(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(10))
    reader = stream(tmp_path / "log")
    start = {"log": {"0": 10_000_000}}
    for end in ({"log": {"0": 10_000_000}}, {"log": {"0": 10_000_100}}):
        with pytest.raises(PositionError, match="the log was replaced or lost its end"):
            reader.partitions(start, end)
    with pytest.raises(PositionError, match="the log was replaced or lost its end"):
        reader.latestOffset(start, ALL)  # and not wait in silence for the log to get there


def test_checkpoint_of_a_deleted_log_raises(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "a", [b"a"])
    reader = stream(tmp_path, subscribePattern=".*")
    start = {"a": {"0": 0}, "b": {"0": 4096}}
    with pytest.raises(LogNotFoundError, match="names the log 'b', which does not exist any more"):
        reader.partitions(start, reader.latestOffset(start, ALL))


# --- several logs ---------------------------------------------------------------------------------


def test_new_log_that_matches_the_pattern_joins_the_query(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "a1", [b"a1"])
    reader = stream(tmp_path, subscribePattern="a.*", startingOffsets="latest")
    start = reader.initialOffset()
    fill(tmp_path / "b1", [b"b1"])
    fill(tmp_path / "a2", [b"a2"])
    end = reader.latestOffset(start, ALL)
    assert sorted(end) == ["a1", "a2"]
    assert _read(reader, start, end) == [b"a2"]


def test_pattern_without_a_log_waits_for_the_first_log(tmp_path: Path, stream: Streams) -> None:
    reader = stream(tmp_path, subscribePattern="a.*", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, ALL) == {}
    assert reader.partitions(start, start) == []
    fill(tmp_path / "a1", [b"a1"])
    end = reader.latestOffset(start, ALL)
    assert list(end) == ["a1"]
    assert _read(reader, start, end) == [b"a1"]
    with pytest.raises(LogNotFoundError, match="this directory does not exist"):
        stream(tmp_path / "missing", subscribePattern="a.*").initialOffset()


def test_directory_that_becomes_a_log_joins_the_query(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "a1", [b"a1"])
    (tmp_path / "a2").mkdir()
    reader = stream(tmp_path, subscribePattern="a.*")
    start = reader.initialOffset()
    assert list(start) == ["a1"]
    fill(tmp_path / "a2", [b"a2"])
    assert _read(reader, start, reader.latestOffset(start, ALL)) == [b"a1", b"a2"]


def test_stream_over_an_archive_reads_each_archived_record(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(1500))
    place = archive(tmp_path / "log", tmp_path / "cold" / "log")
    reader = stream(place)
    start = reader.initialOffset()
    assert _read(reader, start, reader.latestOffset(start, ALL)) == numbered(1500)[:1024]


def test_stream_over_plain_archived_segments_raises(tmp_path: Path, stream: Streams) -> None:
    fill(tmp_path / "log", numbered(1500))
    place = archive(tmp_path / "log", tmp_path / "cold" / "log", compressed=False)
    with pytest.raises(InvalidOptionError, match="a stream cannot follow log, which has plain"):
        stream(place).initialOffset()
