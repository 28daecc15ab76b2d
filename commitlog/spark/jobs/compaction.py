"""Compaction: write the latest record of each key to a new log."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import commitlog
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import read_small_file
from commitlog.base.units import Size, parse_size
from commitlog.errors import InvalidOptionError, LogNotFoundError, NotALogError, SchemaError
from commitlog.extension import view_of
from commitlog.spark.jobs.steps import next_stop, read
from commitlog.spark.topics import open_only
from commitlog.topics.layer import is_bound
from commitlog.topics.schema import SCHEMA_TYPE, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COLUMNS = ("offset", "key", "value", "timestamp", "type", "headers")
_NOTE = "note.json"
_NOTE_LIMIT = 16 << 20  # bytes: half a million steps
_OWN = re.compile(r"note\.json(\.tmp)?|(keyed|bare)-[0-9]{20}")


@dataclass
class Compaction:
    """The result of a compaction.

    Attributes
    ----------
    log, destination : str
        The compacted log and the new one.
    position : int
        All records of the log below this position were compacted.
    read, kept, superseded, tombstones : int
        Number of records that the log had, that the new log has, that a later record of the same
        key replaced, and that were the tombstone of their key.
    repeated : bool
        The destination already had this compaction. Nothing was written.
    """

    log: str
    destination: str
    position: int
    read: int = 0
    kept: int = 0
    superseded: int = 0
    tombstones: int = 0
    repeated: bool = False


def compact(
    spark: SparkSession,
    log: str,
    destination: str,
    *,
    segment_size: Size | None = None,
    step: Size = "1GiB",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Compaction:
    """Write the latest durable record of each key to a new log, in the order of the old log and
    with its timestamps, types and headers.

    Keys whose latest record is a tombstone (an empty value) are left out. All records without a key
    are kept. Timestamps have microseconds, as in Spark. The new log gets all records at once.

    Until the end, the results of each step are in Parquet files in ``DESTINATION.compaction``. If a
    run is killed, the next run continues after its last step. If a run has completed, the next run
    does nothing.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session, for instance from `commitlog.spark.session`.
    log : str
        A path that ``spark.read.format("commitlog")`` loads as one log.
    destination : str
        The new log's directory: empty, new, or the result of this compaction.
    segment_size : int or str, optional
        Segment size of the new log.
    step : int or str
        Bytes of the log in a step. Each step writes the latest record of every key so far to new
        files.
    progress : callable
        Called after each step with the bytes done and the bytes in total.

    Returns
    -------
    Compaction

    Raises
    ------
    InvalidOptionError
        The destination is a log with other records, or the log has sealed messages, or deltas of
        an old release.
    CommitLogError
        The log cannot be read, or the new log cannot be written.
    """
    topic, place = open_only(log, "a compaction")
    with topic:
        name, start, end, uuid, segment_size_bytes = (
            topic.name,
            topic.first,
            topic.end,
            topic.uuid,
            topic.segment_size,
        )
    done = Compaction(place, os.path.abspath(destination), end)
    found = _Found(Path(f"{done.destination}.compaction"), uuid.hex(), start, end)
    options = {"txnAppId": f"compaction of {place} up to {end}", "txnVersion": "0"}
    if segment_size is not None:
        options["segmentSize"] = str(segment_size)
    present = _records_of(done.destination, options["txnAppId"])
    if present is not None:
        found.remove()
        done.kept, done.repeated = present, True
        return done
    step_bytes = parse_size(step, "step")
    begun = found.position
    while found.position < end or not found.bare:
        progress(found.position - begun, end - begun)
        stop = next_stop(found.position, end, step_bytes, segment_size_bytes)
        records = read(spark, log, name, found.position, stop, headers=True)
        found.add(spark, records.select(*_COLUMNS), stop)
    nothing = read(spark, log, name, end, end, headers=True).select(*_COLUMNS)
    latest, bare = found.frames(spark, nothing.schema)
    bound = _bound_topics(latest)
    if bound:
        found.remove()
        raise InvalidOptionError(
            "only this log can decode its sealed messages and deltas, of the topics "
            f"{', '.join(bound)}: read these topics, and append their latest messages to a new log",
            path=place,
        )
    _count(latest, bare, found.read, done)
    kept = latest.where("length(value) > 0").unionByName(bare)
    kept.orderBy("offset").drop("offset").write.format("commitlog").mode("append").options(
        **options
    ).save(done.destination)
    found.remove()
    progress(end - begun, end - begun)
    return done


def _bound_topics(latest: DataFrame) -> list[str]:
    """Return the topics whose messages only their own log can decode."""
    found = set()
    for row in latest.where(f"type = {SCHEMA_TYPE}").select("value").collect():
        with contextlib.suppress(SchemaError):  # of another record, such as a data key
            schema = Schema.of_value(bytes(row.value))
            if is_bound(schema):
                found.add(schema.topic)
    return sorted(found)


def _latest(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    record = sql.max_by(
        sql.struct(*(column for column in _COLUMNS if column != "key")), "offset"
    ).alias("record")
    return (
        records.groupBy("key")
        .agg(record)
        .select(*("key" if column == "key" else f"record.{column}" for column in _COLUMNS))
    )


def _count(latest: DataFrame, bare: DataFrame, read: int, done: Compaction) -> None:
    """Count the kept, superseded and deleted records."""
    from pyspark.sql import functions as sql

    empty = sql.coalesce(sql.sum(sql.when(sql.length("value") == 0, 1)), sql.lit(0))
    keys, done.tombstones = latest.agg(sql.count("*"), empty).collect()[0]
    without_key = bare.count()
    done.read = read
    done.superseded = read - without_key - keys
    done.kept = keys - done.tombstones + without_key


class _Found:
    """The results of a compaction so far: the latest record of each key, tombstones included, and
    all records without a key.
    """

    def __init__(self, folder: Path, uuid: str, start: int, end: int) -> None:
        self._folder = folder
        self._uuid = uuid
        self.position = start
        self.read = 0
        self.bare: list[int] = []
        self._check_own()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(read_small_file(folder / _NOTE, _NOTE_LIMIT))
            position, read, bare = (
                int(note["position"]),
                int(note["read"]),
                [int(at) for at in note["bare"]],
            )
            # The steps of a release before headers are made again.
            if (
                note["columns"] == [*_COLUMNS]
                and note["uuid"] == uuid
                and bare
                and bare[-1] == position <= end
            ):
                self.position, self.read, self.bare = position, read, bare
                return
        self.remove()

    def _check_own(self) -> None:
        if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
            raise InvalidOptionError(
                "the compaction needs a directory here for its results: move this file away",
                path=str(self._folder),
            )
        others = (
            [path.name for path in self._folder.iterdir() if _OWN.fullmatch(path.name) is None]
            if self._folder.is_dir()
            else []
        )
        if others:
            raise InvalidOptionError(
                f"the compaction needs this directory for its results, and it holds another file "
                f"({min(others)}): move it away",
                path=str(self._folder),
            )

    def _at(self, what: str, position: int) -> str:
        return (self._folder / f"{what}-{position:020d}").as_uri()

    def add(self, spark: SparkSession, records: DataFrame, stop: int) -> None:
        """Add the records up to a position, and note the position."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        seen = Observation()
        keyed = records.observe(seen, sql.count(sql.lit(1)).alias("records")).where(
            "key is not null"
        )
        if self.bare:
            keyed = keyed.unionByName(
                spark.read.schema(records.schema).parquet(self._at("keyed", self.position))
            )
        # If the log is empty, the step ends where it began.
        _latest(keyed).write.mode("overwrite").parquet(self._at("keyed", stop))
        records.where("key is null").write.mode("overwrite").parquet(self._at("bare", stop))
        before = self.position if self.bare else None
        self.position = stop
        self.read += int(seen.get["records"])
        self.bare.append(stop)
        self._note()
        failpoint("step done")
        if before is not None and before != stop:
            shutil.rmtree(self._folder / f"keyed-{before:020d}", ignore_errors=True)

    def _note(self) -> None:
        temporary = self._folder / f"{_NOTE}.tmp"
        note = {"uuid": self._uuid, "position": self.position, "read": self.read}
        note |= {"bare": self.bare, "columns": _COLUMNS}
        temporary.write_text(json.dumps(note) + "\n", encoding="utf-8")
        temporary.replace(self._folder / _NOTE)

    def frames(self, spark: SparkSession, schema: StructType) -> tuple[DataFrame, DataFrame]:
        """Return the latest record of each key, and the records without a key."""
        read = spark.read.schema(schema)
        return read.parquet(self._at("keyed", self.position)), read.parquet(
            *(self._at("bare", at) for at in self.bare)
        )

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _records_of(path: str, transaction: str) -> int | None:
    """Return how many records the destination has of this compaction; None if the log does not
    exist or is empty.
    """
    try:
        log = commitlog.open(path, "r")
    except (LogNotFoundError, NotALogError):
        return None  # the sink checks a directory that is not a log
    with log:
        if view_of(log).has_joined(transaction, 0):
            return log.count()
        if log.count():
            raise InvalidOptionError(
                "the destination is a log with other records in it: choose an empty or a new "
                "directory",
                path=path,
            )
    return None
