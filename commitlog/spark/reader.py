"""LogReader: a batch read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from commitlog.spark.columns import arrow_schema
from commitlog.spark.filters import RowFilter, is_taken
from commitlog.spark.plan import LogPartition, cores, partitions_of
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.slices import read_slices
from commitlog.spark.topic import Topic
from commitlog.spark.topics import check_names, end_of, locate, open_topic, start_of


def schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the columns that Spark requests."""
    return arrow_schema(
        [(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields]
    )


def wants_sequence(schema: pa.Schema) -> bool:
    return "sequence" in {name.lower() for name in schema.names}


class LogReader(DataSourceReader):
    """Read the records of some logs between two bounds.

    Parameters
    ----------
    options : mapping of str to str
        The options as Spark gives them.
    schema : pyspark.sql.types.StructType
        The requested columns.
    parallelism : int, optional
        Number of tasks that the session runs at once [default: the cores of this machine].
    """

    def __init__(
        self, options: Mapping[str, str], schema: StructType, parallelism: int | None = None
    ) -> None:
        self._parallelism = parallelism or cores()
        self._schema = schema_of(schema)
        self._options = ReadOptions.parse(options, stream=False)
        self._filter = RowFilter()

    def partitions(self) -> list[InputPartition]:
        """Plan what each task reads. Spark calls this once, on the driver."""
        places = locate(self._options)
        for bound, name in (
            (self._options.start, "startingOffsets"),
            (self._options.end, "endingOffsets"),
        ):
            check_names(bound, name, list(places))
        with contextlib.ExitStack() as stack:
            wanted = {
                name: place for name, place in places.items() if self._filter.wants_topic(name)
            }
            topics = [
                stack.enter_context(open_topic(name, place, self._options))
                for name, place in wanted.items()
            ]
            return [
                *partitions_of(
                    self._ranges(topics),
                    least=self._options.min_partitions,
                    parallelism=self._parallelism,
                    with_sequence=wants_sequence(self._schema),
                    fail_on_data_loss=self._options.fail_on_data_loss,
                )
            ]

    def _ranges(self, topics: list[Topic]) -> list[tuple[Topic, int, int]]:
        return [
            (
                topic,
                *self._filter.narrowed(
                    topic, start_of(topic, self._options), end_of(topic, self._options)
                ),
            )
            for topic in topics
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition, on an executor. If the plan is empty, Spark passes a
        partition of its own.
        """
        slices = partition.slices if isinstance(partition, LogPartition) else ()
        yield from self._filter.passing(
            read_slices(
                slices,
                self._schema,
                on_damage=self._options.on_damage,
                fail_on_data_loss=self._options.fail_on_data_loss,
            )
        )


class FilteringReader(LogReader):
    """A batch read that applies filters itself. It is an option, because Spark rejects a reader
    with `pushFilters` unless the session enables filter push-down.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that this source applies, and return the others."""
        self._filter = RowFilter([one for one in filters if is_taken(one)])
        return [one for one in filters if not is_taken(one)]


def batch_reader(
    options: Mapping[str, str], schema: StructType, parallelism: int | None = None
) -> LogReader:
    """Return the reader of a query, with filter push-down if the options ask for it."""
    pushes = ReadOptions.parse(options, stream=False).filter_pushdown
    return (FilteringReader if pushes else LogReader)(options, schema, parallelism)
