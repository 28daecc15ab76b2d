"""The steps of a job over a log: where each ends, and what it reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def next_stop(position: int, end: int, step_bytes: int, segment_size: int) -> int:
    """Return where a step from a position stops: at the end of its first segment or of a later one,
    or at `end`.
    """
    start = position // segment_size * segment_size
    return min(start + max(step_bytes // segment_size, 1) * segment_size, end)


def read(
    spark: SparkSession, log: str, topic: str, start: int, stop: int, *, headers: bool
) -> DataFrame:
    """Read the records of a log in [start, stop), with their headers if these are wanted."""
    bounds = {
        name: json.dumps({topic: {"0": at}})
        for name, at in (("startingOffsets", start), ("endingOffsets", stop))
    }
    reader = spark.read.format("commitlog").options(includeHeaders=headers, **bounds)
    return reader.load(log)
