"""LogReader: a batch read, and what it shares with a stream."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from commitlog.spark.columns import COUNTED, MESSAGE, RECORD_COLUMNS, arrow_schema
from commitlog.spark.filters import RowFilter, column_of, is_taken
from commitlog.spark.plan import LogPartition, cores, partitions_of
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.share import SharePartition, shares_of
from commitlog.spark.slices import Slice, read_slices, without_deleted
from commitlog.spark.spark_topic import SparkTopic
from commitlog.spark.topics import check_names, end_of, locate, open_topic, start_of

# In the process that runs it, Spark asks which filters the source takes.
FILTER_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class BaseReader:
    """What the readers of batches and streams share."""

    _stream = False
    _filter = RowFilter()

    def __init__(
        self, options: Mapping[str, str], schema: StructType, parallelism: int | None = None
    ) -> None:
        self._parallelism = parallelism or cores()
        self._options = ReadOptions.parse(options, stream=self._stream)
        message = None
        if self._options.message_topic is not None:
            from commitlog.spark.message_schema import message_type_in

            message = message_type_in(schema)
        self._schema = arrow_schema(
            [
                (field.name, field.dataType.simpleString(), field.nullable)
                for field in schema.fields
            ],
            message,
        )

    def _plan(
        self, ranges: Iterable[tuple[SparkTopic, int, int]], *, for_one_task: bool = False
    ) -> list[LogPartition]:
        columns, options = {name.lower() for name in self._schema.names}, self._options
        planned = partitions_of(
            ranges,
            least=0 if for_one_task else options.min_partitions,
            parallelism=1 if for_one_task else self._parallelism,
            with_sequence="sequence" in columns,
            counts=columns.isdisjoint(RECORD_COLUMNS) and options.on_damage == "fail",
            fail_on_data_loss=options.fail_on_data_loss,
            listed=self._filter.listed,
        )
        slices = tuple(piece for part in planned for piece in part.slices)
        if self._schema == COUNTED and all(piece.records is not None for piece in slices):
            return [LogPartition(slices)]  # one task adds up what is known
        return planned

    def _slices_of(self, partition: InputPartition) -> tuple[Slice, ...]:
        """Return the slices of a partition. If the plan is empty, Spark passes one of its own."""
        return partition.slices if isinstance(partition, LogPartition) else ()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition, on an executor."""
        slices = self._slices_of(partition)
        if self._schema == COUNTED:
            yield self._counted(slices)
            return
        names = {name.lower() for name in self._schema.names}
        if MESSAGE not in names and not (self._options.decode and "key" in names):
            yield from self._rows(slices, self._schema)
            return
        from commitlog.spark.message_column import MessageColumn

        options = self._options
        column = MessageColumn(self._schema, options.on_damage, options.message_topic)
        for (log, store), pieces in itertools.groupby(slices, lambda each: (each.log, each.store)):
            yield from column.added(log, store, self._rows(pieces, column.needed))

    def _counted(self, slices: Iterable[Slice]) -> pa.RecordBatch:
        """Return one row: the number of records. Read only the slices of which it is unknown."""
        fails = self._options.fail_on_data_loss
        there = list(without_deleted(slices, fail_on_data_loss=fails))
        known = sum(piece.records or 0 for piece in there)
        unknown = (piece for piece in there if piece.records is None)
        found = sum(batch.num_rows for batch in self._rows(unknown, pa.schema([])))
        return pa.record_batch([pa.array([known + found], pa.int64())], schema=COUNTED)

    def _rows(self, slices: Iterable[Slice], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return read_slices(
            slices,
            schema,
            on_damage=self._options.on_damage,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )


class LogReader(BaseReader, DataSourceReader):
    """Read the records of some logs between two bounds.

    Parameters
    ----------
    options, schema, parallelism
        As Spark has them, and how many tasks the session runs at once.
    is_reused : bool
        Spark uses the plan again for other queries, so the tasks find the records.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        schema: StructType,
        parallelism: int | None = None,
        *,
        is_reused: bool = False,
    ) -> None:
        super().__init__(options, schema, parallelism)
        self._is_reused = is_reused

    def partitions(self) -> Sequence[InputPartition]:
        """Plan what each task reads. Spark calls this once, on the driver."""
        with contextlib.ExitStack() as stack:
            planned = self._plan(self._ranges(stack))
        return shares_of(planned) if self._is_reused else planned

    def _slices_of(self, partition: InputPartition) -> tuple[Slice, ...]:
        if not isinstance(partition, SharePartition):
            return super()._slices_of(partition)
        share = partition.share
        with contextlib.ExitStack() as stack:
            ranges = share.clipped(self._ranges(stack, share.wants))
            planned = self._plan(ranges, for_one_task=True)
        return tuple(piece for part in planned for piece in part.slices)

    def _ranges(
        self, stack: contextlib.ExitStack, wants: Callable[[str], bool] = lambda name: True
    ) -> list[tuple[SparkTopic, int, int]]:
        """Open the logs of the read, and return what to read of each at present."""
        places = locate(self._options)
        for bound, name in (
            (self._options.start, "startingOffsets"),
            (self._options.end, "endingOffsets"),
        ):
            check_names(bound, name, list(places))
        topics = [
            stack.enter_context(open_topic(name, place, self._options))
            for name, place in places.items()
            if wants(name) and self._filter.wants_topic(name)
        ]
        return [
            (
                topic,
                *self._filter.narrowed(
                    topic, start_of(topic, self._options), end_of(topic, self._options)
                ),
            )
            for topic in topics
        ]


class FilteringReader(LogReader):
    """A batch read that applies filters itself. Spark refuses a reader with `pushFilters` where
    filter push-down is off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take the filters that this source applies, and return the others."""
        # With `decode`, keys are compared when they are opened: by Spark.
        opened = "key" if self._options.decode else ""
        taken = [one for one in filters if is_taken(one) and column_of(one) != opened]
        self._filter = RowFilter(taken)
        return [one for one in filters if one not in taken]

    def _rows(self, slices: Iterable[Slice], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass the filters."""
        return self._filter.passing(super()._rows(slices, schema))


def batch_reader(
    options: Mapping[str, str],
    schema: StructType,
    parallelism: int | None = None,
    *,
    takes_filters: bool,
) -> LogReader:
    """Return the reader of a query. It takes filters if Spark offers them, and if each query has a
    plan of its own.
    """
    kind = FilteringReader if takes_filters and FILTER_WORKER in sys.modules else LogReader
    return kind(options, schema, parallelism, is_reused=not takes_filters)
