"""Streams in Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import commitlog
from tests.conftest import ROOT
from tests.spark.logs_in_spark import SIZE, fill, numbered


class Query:
    """A stream of a log's values into a list; several can run from the same checkpoint."""

    def __init__(self, spark: Any, log: Path, checkpoint: Path, **options: object) -> None:
        given = {
            "startingOffsets": "earliest",
            **{name: str(value) for name, value in options.items()},
        }
        self.batches: list[list[bytes]] = []
        frame = spark.readStream.format("commitlog").options(**given).load(str(log)).select("value")
        self._writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(
            self._take
        )

    def _take(self, batch: Any, number: int) -> None:
        self.batches.append(sorted(bytes(row.value) for row in batch.collect()))

    @property
    def values(self) -> list[bytes]:
        return sorted(value for batch in self.batches for value in batch)

    def run(self) -> Any:
        """Read all available records and stop."""
        query = self._writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    def start(self) -> Any:
        """Follow the log."""
        return self._writer.trigger(processingTime="0 seconds").start()


def test_restarted_query_resumes_at_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SIZE) as log:
        for value in numbered(1000)[:600]:
            log.append(value)
        log.flush()
        first = Query(spark, tmp_path / "log", tmp_path / "checkpoint", maxOffsetsPerTrigger=250)
        first.run()
        assert [len(batch) for batch in first.batches] == [250, 250, 100]
        for value in numbered(1000)[600:]:
            log.append(value)
        log.flush()
        again = Query(spark, tmp_path / "log", tmp_path / "checkpoint", startingOffsets="latest")
        progress = again.run().lastProgress
    assert first.values + again.values == numbered(1000)
    # The end offset equals the flushed position, also in the progress report of the query.
    told = json.loads(str(progress["sources"][0]["latestOffset"]).replace("'", '"'))
    assert told["log"]["0"] == log.flushed_position


def test_stream_follows_another_process_that_appends_and_rolls(
    spark: Any, tmp_path: Path, until: Any
) -> None:
    command = [sys.executable, "-m", "tests.spark.appending", str(tmp_path / "log"), "20000"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as appending:
        assert appending.stdout is not None
        assert appending.stdin is not None
        assert appending.stdout.readline() == "begun\n"
        reading = Query(spark, tmp_path / "log", tmp_path / "checkpoint")
        query = reading.start()
        try:
            assert appending.stdout.readline() == "done\n"
            until(lambda: sum(map(len, reading.batches)) >= 20_000, limit_s=60)
        finally:
            query.stop()
            appending.stdin.close()
    assert appending.returncode == 0
    assert reading.values == numbered(20_000)


def test_stream_over_pattern_follows_logs_created_later(
    spark: Any, tmp_path: Path, until: Any
) -> None:
    (tmp_path / "logs").mkdir()
    reading = Query(
        spark,
        tmp_path / "logs",
        tmp_path / "checkpoint",
        subscribePattern=".*",
        startingOffsets="latest",
    )
    reading.run()
    query = reading.start()
    try:
        fill(tmp_path / "logs" / "orders", numbered(10))
        until(lambda: reading.values == numbered(10), limit_s=60)
    finally:
        query.stop()


def test_query_overtaken_by_retention_fails_or_skips(spark: Any, tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SIZE) as log:
        log.append(b"0")
        log.flush()
        Query(spark, tmp_path / "log", tmp_path / "checkpoint").run()
        for value in numbered(2500):
            log.append(value)
        log.flush()
        log.delete_before(2 * SIZE)
        with pytest.raises(
            StreamingQueryException,
            match=f"before this query read them, positions .* to {2 * SIZE}:",
        ):
            Query(spark, tmp_path / "log", tmp_path / "checkpoint").run()
        left = Query(spark, tmp_path / "log", tmp_path / "checkpoint", failOnDataLoss="false")
        left.run()
    assert left.values == numbered(2500)[1023:]


def test_damage_stops_query_with_segment_name_and_position(spark: Any, tmp_path: Path) -> None:
    positions = fill(tmp_path / "log", numbered(100))
    file = tmp_path / "log" / f"{0:020d}.seg"
    content = bytearray(file.read_bytes())
    content[positions[50] + 30] ^= 1
    file.write_bytes(content)
    with pytest.raises(StreamingQueryException, match=f"{file.name}, position {positions[50]}"):
        Query(spark, tmp_path / "log", tmp_path / "checkpoint").run()
    passing = Query(spark, tmp_path / "log", tmp_path / "checkpoint", onDamage="skip")
    passing.run()
    assert len(passing.values) == 99


def test_batch_option_on_a_stream_raises(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"x"])
    with pytest.raises(
        StreamingQueryException, match="endingOffsets is an option of batch reads only"
    ):
        Query(spark, tmp_path / "log", tmp_path / "checkpoint", endingOffsets="latest").run()
