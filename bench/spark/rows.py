"""What is measured: each row gives the figures of its turns."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import commitlog
from commitlog.log.parts import parts_of
from commitlog.spark import session
from commitlog.spark.columns import DDL

VALUE_SIZE = 100
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
KAFKA = ", ".join(column for column in DDL.split(", ") if column.split()[0] in COLUMNS)
LIVE_INTERVAL_S = 0.02
Figures = dict[str, list[float]]


class Setting:
    """One Spark session on two cores, a log, and the same rows as uncompressed Parquet.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    records : int
        How many, of 100 bytes each.
    turns : int
        How often each query is measured.
    config : dict of str to str
        Spark's settings besides those of `commitlog.spark.session`.
    """

    def __init__(self, folder: Path, records: int, turns: int, config: dict[str, str]) -> None:
        self.folder = folder
        self.records = records
        self.turns = turns
        self._config = config
        self.log = folder / "log"
        self.parquet = folder / "parquet"

    def run(self, names: list[str]) -> dict[str, Any]:
        """Figures by row."""
        values = np.random.default_rng(1).integers(0, 256, (10_000, VALUE_SIZE), dtype=np.uint8)
        with commitlog.open(self.log) as log:
            for start in range(0, self.records, len(values)):
                log.append_array(values[: self.records - start])
        config = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2", **self._config}
        self.spark = session("bench", master="local[2]", config=config)
        try:
            measured = {}
            for name in names:
                print(f"{name} ...", file=sys.stderr, flush=True)
                measured[name] = BY_NAME[name](self)
            return measured
        finally:
            self.spark.stop()

    def read(self) -> Any:
        return self.spark.read.format("commitlog").load(str(self.log))

    def read_parquet(self) -> Any:
        if not self.parquet.exists():
            self.read().select(*COLUMNS).write.option("compression", "none").parquet(
                str(self.parquet)
            )
        return self.spark.read.parquet(str(self.parquet))

    def in_turns(self, queries: dict[str, Callable[[], object]]) -> Figures:
        """Seconds of each query; they take turns, and the first turn only warms up."""
        figures: Figures = {name: [] for name in queries}
        for turn in range(self.turns + 1):
            for name, query in queries.items():
                begun_s = time.perf_counter()
                query()
                if turn:
                    figures[name].append(time.perf_counter() - begun_s)
        return figures

    def stream(self, sink: Callable[[Any], Any], checkpoint: str, **options: object) -> Any:
        """A query that reads what is there, and is over."""
        given = {
            "startingOffsets": "earliest",
            **{name: str(value) for name, value in options.items()},
        }
        frame = (
            self.spark.readStream.format("commitlog")
            .schema(KAFKA)
            .options(**given)
            .load(str(self.log))
        )
        writer = sink(frame.writeStream).option("checkpointLocation", str(self.folder / checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query


# --- batch reads ----------------------------------------------------------------------------------


def batch(setting: Setting) -> dict[str, Any]:
    """The same queries of the log and of Parquet, both as a plain `load(path)` and alternating."""
    from pyspark.sql import functions as f

    late = f.col("sequence") >= round(setting.records * 0.99)
    since = setting.read().where(late).agg(f.min("timestamp")).first()[0]
    length = f.sum(f.length("value"))
    queries: dict[str, Callable[[Any], object]] = {
        "count()": lambda frame: frame.count(),
        "sum(length(value))": lambda frame: frame.agg(length).collect(),
        "7 columns into the noop sink": lambda frame: (
            frame.select(*COLUMNS).write.format("noop").mode("overwrite").save()
        ),
        "sum(length(value)) of the last 1 % by timestamp": lambda frame: (
            frame.where(f.col("timestamp") >= f.lit(since)).agg(length).collect()
        ),
    }
    frames = {"Parquet": setting.read_parquet, "log": setting.read}
    figures = setting.in_turns(
        {
            f"{source}: {name}": functools.partial(_run, query, frame)
            for name, query in queries.items()
            for source, frame in frames.items()
        }
    )
    return {"seconds": figures}


def _run(query: Callable[[Any], object], frame: Callable[[], Any]) -> None:
    query(frame())


def one_percent(setting: Setting) -> dict[str, Any]:
    """How many bytes a task reads for one per cent of the offsets, and of the whole."""
    from pyspark.sql.types import StructType

    from commitlog.spark.plan import LogPartition
    from commitlog.spark.reader import LogReader

    with commitlog.open(setting.log, mode="r") as log:
        first, last = (
            parts_of(log).index.position_of(setting.records * hundredth // 100)
            for hundredth in (50, 51)
        )
        whole = log.tail_position - log.first_position
    bounds = {
        name: json.dumps({"log": {"0": at}})
        for name, at in (("startingOffsets", first), ("endingOffsets", last))
    }
    reader = LogReader({"path": str(setting.log), **bounds}, StructType().add("value", "binary"))
    parts = [part for part in reader.partitions() if isinstance(part, LogPartition)]
    return {
        "read_bytes": sum(piece.read_bytes for part in parts for piece in part.slices),
        "whole_bytes": whole,
    }


def memory(setting: Setting) -> dict[str, Any]:
    """The memory of the worker that used most, after reading the log whole and after reading a
    part, in bytes.
    """
    peaks = []
    for columns in (["value"], COLUMNS):
        setting.read().select(*columns).write.format("noop").mode("overwrite").save()
        peaks.append(max((process.memory_info().rss for process in _workers()), default=0))
    return {"worker_bytes": peaks, "log_bytes": setting.records * (VALUE_SIZE + 20)}


def _workers() -> Iterator[psutil.Process]:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "pyspark.daemon" in process.cmdline():
                yield process


# --- streams --------------------------------------------------------------------------------------


def _batches(setting: Setting, size: int, count: int) -> dict[str, Any]:
    """Milliseconds of each batch of a stream but the first, and how many records it had: of the
    fastest turn, after one that warms up.
    """
    turns: list[list[tuple[float, int]]] = []
    for turn in range(setting.turns + 1):
        query = setting.stream(
            lambda writer: writer.format("noop"),
            f"checkpoint-{size}-{turn}",
            maxOffsetsPerTrigger=size,
        )
        progress = [one for one in query.recentProgress if one["numInputRows"]]
        turns.append(
            [
                (one["durationMs"]["triggerExecution"], one["numInputRows"])
                for one in progress[1 : count + 1]
            ]
        )
    found = min(turns[1:], key=lambda batches: sum(took for took, _ in batches))
    return {
        "batch_ms": [took for took, _ in found],
        "batch_records": [records for _, records in found],
    }


def large_batches(setting: Setting) -> dict[str, Any]:
    return _batches(setting, max(1, setting.records // 4), 3)


def small_batches(setting: Setting) -> dict[str, Any]:
    return _batches(setting, max(1, setting.records // 100), 60)


_APPENDER = """
import select, sys, time
import commitlog
from commitlog.log.parts import parts_of
with commitlog.open(sys.argv[1], flush="sync") as log:
    log.append(b"")
    print("begun", flush=True)
    while not select.select([sys.stdin], [], [], float(sys.argv[2]))[0]:
        log.append(b"%d" % time.time_ns())
"""
WARM_UP_BATCHES = 3


def live(setting: Setting) -> dict[str, Any]:
    """Milliseconds from each append to the foreachBatch that has it, while another process appends
    and waits for the disk. What the first batches have is not counted: Spark starts its workers in
    them."""
    path, count = setting.folder / "live", max(50, setting.records // 4000)
    command = [sys.executable, "-c", _APPENDER, str(path), str(LIVE_INTERVAL_S)]
    batches: list[list[float]] = []

    def take(frame: Any, number: int) -> None:
        rows = frame.collect()
        now_ns = time.time_ns()
        if rows:
            batches.append([(now_ns - int(bytes(row.value))) / 1e6 for row in rows if row.value])

    def counted() -> list[float]:
        return [latency for batch in batches[WARM_UP_BATCHES:] for latency in batch]

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as appending:
        assert appending.stdout is not None
        assert appending.stdin is not None
        appending.stdout.readline()
        frame = setting.spark.readStream.format("commitlog").schema("value binary").load(str(path))
        query = (
            frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(setting.folder / "checkpoint-live"))
            .start()
        )
        deadline_s = time.monotonic() + 120
        while len(counted()) < count and query.isActive and time.monotonic() < deadline_s:
            time.sleep(0.05)
        query.stop()
        appending.stdin.close()
    return {"latency_ms": counted()}


# --- writing --------------------------------------------------------------------------------------


def write(setting: Setting) -> dict[str, Any]:
    """Seconds to write all the records to a new log, from Parquet and a frame in memory."""
    source = setting.read_parquet().select("value").cache()
    source.count()
    numbers = iter(range(1 << 30))

    def once() -> None:
        source.write.format("commitlog").mode("append").save(
            str(setting.folder / f"written-{next(numbers)}")
        )

    figures = setting.in_turns({"write": once})
    source.unpersist()
    return {"seconds": figures}


BY_NAME: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "batch": batch,
    "one-percent": one_percent,
    "memory": memory,
    "large-batches": large_batches,
    "small-batches": small_batches,
    "live": live,
    "write": write,
}


def median(figures: list[float]) -> float:
    """Of what was measured; nothing measured is not a number."""
    return statistics.median(figures) if figures else float("nan")
