"""Compaction: of each key the latest record, in a new log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commitlog.errors import InvalidOptionError, LogNotFoundError, NotALogError
from commitlog.log import open_log
from commitlog.options import Size
from commitlog.spark.topics import open_only
from commitlog.stage.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STEPS = 2


@dataclass
class Compaction:
    """What a compaction did.

    Attributes
    ----------
    log, destination : str
        From where, and to where.
    position : int
        What the log had below was compacted.
    read, kept, superseded, tombstones : int
        Records: that the log had, that the new one has, that a later one of the same key replaced, and latest ones that said their key was
        deleted.
    repeated : bool
        The destination had this very compaction already, and nothing was done.
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
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Compaction:
    """Write the latest record of each key to a new log, as far as the old one is durable, in its order and with its timestamps and types.

    Keys whose latest record is a tombstone (an empty value) are left out. Records without a key are kept: nothing replaces them. Timestamps
    are Spark's, of microseconds. The new log has all of it or nothing; a run that was killed starts over, and one that had ended does
    nothing.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Such as `commitlog.spark.session` gives.
    log : str
        Whatever ``spark.read.format("commitlog")`` can load as one log.
    destination : str
        The new log's directory: empty, new, or that of this very compaction.
    segment_size : int or str, optional
        Of the new log.
    progress : callable
        Told after each step: steps done, steps in all.

    Returns
    -------
    Compaction

    Raises
    ------
    InvalidOptionError
        The destination is a log with something else in it.
    CommitLogError
        The log cannot be read, or the new one not written.
    """
    topic, place = open_only(log, "a compaction")
    with topic:
        name, end = topic.name, topic.end
    done = Compaction(place, os.path.abspath(destination), end)
    options = {"txnAppId": f"compaction of {place} up to {end}", "txnVersion": "0"}
    if segment_size is not None:
        options["segmentSize"] = str(segment_size)
    present = _records_of(done.destination, options["txnAppId"])
    if present is not None:
        done.kept, done.repeated = present, True
        return done
    progress(0, _STEPS)
    source = spark.read.format("commitlog").option("endingOffsets", json.dumps({name: {"0": end}})).load(log)
    records = source.select("offset", "key", "value", "timestamp", "type")
    _count(records, done)
    progress(1, _STEPS)
    # Kept aside, since a sort looks at what it is to sort twice.
    latest = _latest(records).persist()
    try:
        latest.orderBy("offset").drop("offset").write.format("commitlog").mode("append").options(**options).save(done.destination)
    finally:
        latest.unpersist()
    progress(_STEPS, _STEPS)
    return done


def _count(records: DataFrame, done: Compaction) -> None:
    """Say what becomes of the records: the lengths tell it, without moving the values about."""
    from pyspark.sql import functions as sql

    lengths = records.groupBy("key").agg(sql.max_by(sql.length("value"), "offset").alias("length"), sql.count("*").alias("versions"))
    keyed = sql.col("key").isNotNull()
    figures = lengths.agg(
        *(
            sql.coalesce(sql.sum(sql.when(which, what)), sql.lit(0)).alias(name)
            for name, which, what in (
                ("keys", keyed, sql.lit(1)),
                ("keyed", keyed, sql.col("versions")),
                ("bare", ~keyed, sql.col("versions")),
                ("tombstones", keyed & (sql.col("length") == 0), sql.lit(1)),
            )
        )
    ).collect()[0]
    done.read = figures["keyed"] + figures["bare"]
    done.superseded = figures["keyed"] - figures["keys"]
    done.tombstones = figures["tombstones"]
    done.kept = figures["keys"] - figures["tombstones"] + figures["bare"]


def _latest(records: DataFrame) -> DataFrame:
    """The records that stay: of each key the latest, unless that is a tombstone, and all without a key."""
    from pyspark.sql import functions as sql

    keyed = sql.col("key").isNotNull()
    record = sql.max_by(sql.struct("offset", "value", "timestamp", "type"), "offset").alias("record")
    latest = records.where(keyed).groupBy("key").agg(record).where("length(record.value) > 0")
    return latest.select("record.offset", "key", "record.value", "record.timestamp", "record.type").unionByName(records.where(~keyed))


def _records_of(path: str, transaction: str) -> int | None:
    """How many records the destination has of this compaction; None where there is no log, or an empty one, yet."""
    try:
        log = open_log(path, "r")
    except (LogNotFoundError, NotALogError):
        return None  # the sink says what it thinks of a directory that is no log
    with log:
        if Manifest.read(log.directory).has(transaction, 0):
            return log.count()
        if log.count():
            raise InvalidOptionError("the destination is a log with other records in it: choose an empty or a new one", path=path)
    return None
