"""Filters that Spark pushes down: they narrow the ranges to read, and select rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from commitlog.spark.columns import FIELDS
from commitlog.spark.slices import Slice
from commitlog.spark.spark_topic import SparkTopic

_COMPARISONS = {
    spark.EqualTo: pc.equal,
    spark.GreaterThan: pc.greater,
    spark.GreaterThanOrEqual: pc.greater_equal,
    spark.LessThan: pc.less,
    spark.LessThanOrEqual: pc.less_equal,
}
_COLUMNS = {name.lower(): name for name in ("offset", "timestamp", "topic", "type", "key")}
_LISTED_MOST = 1 << 16  # offsets of a slice, which a task gets pickled
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class RowFilter:
    """The pushed-down filters of a read. A row must pass all of them."""

    def __init__(self, filters: Sequence[Any] = ()) -> None:
        self._filters = tuple(filters)

    def wants_topic(self, name: str) -> bool:
        """Return whether a log of that name can have rows that pass."""
        names = pa.array([name], pa.string())
        return all(
            _mask(one, names)[0].as_py() is True
            for one in self._filters
            if column_of(one) == "topic"
        )

    def narrowed(self, topic: SparkTopic, start: int, stop: int) -> tuple[int, int]:
        """Return the part of a range that can have rows that pass. Timestamps of several writers
        may decrease, so a filter on time narrows only the start.
        """
        for one in self._filters:
            column, value = column_of(one), getattr(one, "value", None)
            if column == "offset" and isinstance(value, int):
                if isinstance(one, spark.EqualTo | spark.GreaterThan | spark.GreaterThanOrEqual):
                    start = max(start, value)
                if isinstance(one, spark.EqualTo | spark.LessThan | spark.LessThanOrEqual):
                    stop = min(stop, value + 1)
            if column == "timestamp" and isinstance(
                one, spark.EqualTo | spark.GreaterThan | spark.GreaterThanOrEqual
            ):
                found = topic.position_since(_scalar(column, value).cast(pa.int64()).as_py() * 1000)
                start = max(start, stop if found is None else found)
        return start, stop

    def listed(self, topic: SparkTopic, piece: Slice) -> Slice | None:
        """Return the slice with the offsets of the records that may pass, if posting lists tell
        them; None if there are none.
        """
        types, keys = self._equals("type"), self._equals("key")
        if types is None and keys is None:
            return piece
        found = []
        for key in [None] if keys is None else keys:
            offsets = topic.listed(piece.base, types, key)
            if offsets is None:
                return piece
            found.append(offsets[(offsets >= piece.start) & (offsets < piece.stop)])
        offsets = np.unique(np.concatenate(found)) if found else np.empty(0, np.uint32)
        if len(offsets) > _LISTED_MOST:
            return piece
        return replace(piece, listed=offsets.tobytes()) if len(offsets) else None

    def _equals(self, column: str) -> list[Any] | None:
        """Return the values that a column may have, by one of the filters; None: any."""
        for one in self._filters:
            if column_of(one) == column and isinstance(one, spark.EqualTo | spark.In):
                values = one.value if isinstance(one, spark.In) else [one.value]
                return [_scalar(column, value).as_py() for value in values]
        return None

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = batch
            columns = {name.lower(): at for at, name in enumerate(batch.schema.names)}
            for one in self._filters:
                kept = kept.filter(_mask(one, kept.column(columns[column_of(one)])))
            if kept.num_rows:
                yield kept


def is_taken(one: Any) -> bool:
    """Return whether this source applies a filter itself, so that Spark need not."""
    if isinstance(one, spark.Not):
        return is_taken(one.child)
    column = column_of(one)
    if column not in _COLUMNS.values():
        return False
    if isinstance(one, spark.StringStartsWith):
        return column == "topic"
    return isinstance(one, spark.IsNull | spark.IsNotNull) or _has_values(one, column)


def _has_values(one: Any, column: str) -> bool:
    """Return whether a filter compares a column with values of the column's type."""
    if not isinstance(one, (spark.In, *_COMPARISONS)):
        return False
    value: Any = getattr(one, "value", None)
    try:
        return all(
            _scalar(column, each).is_valid
            for each in (value if isinstance(one, spark.In) else [value])
        )
    except (pa.ArrowTypeError, TypeError, ValueError, OverflowError):
        return False


def column_of(one: Any) -> str:
    """Return the column of a filter that may be taken; empty for any other."""
    if isinstance(one, spark.Not):
        return column_of(one.child)
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    return _COLUMNS.get(".".join(attribute).lower(), "")


def _scalar(column: str, value: Any) -> pa.Scalar:
    if isinstance(value, bytearray):
        value = bytes(value)
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.astimezone()
        return pa.scalar((aware - _EPOCH) // _MICROSECOND, pa.int64()).cast(FIELDS[column])
    return pa.scalar(value, FIELDS[column])


def _mask(one: Any, column: pa.Array) -> pa.Array:
    """Return True for values that pass, and null where SQL's result is null."""
    if isinstance(one, spark.Not):
        return pc.invert(_mask(one.child, column))
    if isinstance(one, spark.IsNull):
        return pc.is_null(column)
    if isinstance(one, spark.IsNotNull):
        return pc.is_valid(column)
    if isinstance(one, spark.StringStartsWith):
        return pc.starts_with(column, one.value)
    name = column_of(one)
    if isinstance(one, spark.In):
        wanted = pa.array([_scalar(name, value) for value in one.value], FIELDS[name])
        return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), None)
    return _COMPARISONS[type(one)](column, _scalar(name, one.value))
