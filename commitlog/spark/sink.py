"""The sink: tasks stage segments, and the driver joins them to the log.

A task writes complete segment files that no reader sees. After all tasks have ended, `commit` joins
their segments at once. Until then the log is unchanged, and a task that dies leaves a file for a
later sweep. A join adds the query id and number of a streaming batch to the log's manifest together
with the records. So Spark may commit a batch repeatedly.

Spark also calls `abort` for a batch whose `commit` took effect but failed afterwards. `abort`
leaves joined segments in the log.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from commitlog.base.regular_file import open_regular
from commitlog.errors import InvalidOptionError, RecordTypeError
from commitlog.extension import HEADER_SIZE, PieceDecoder, StagingWriter, join
from commitlog.options import Options
from commitlog.spark.columns import FIELDS, HEADERS, HEADERS_TYPE, with_header_maps
from commitlog.spark.slices import Slice, read_slices
from commitlog.spark.target import Target, folder_of
from commitlog.spark.write_options import WriteOptions, check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TOPICS_LIMIT = 256  # for each task: a topic has an open file and a buffer
_SMALL_BYTES = 1 << 20
_STAGED = pa.schema([(name, FIELDS[name]) for name in ("value", "key", "type", "timestamp")])
_WITH_HEADERS = _STAGED.append(pa.field(HEADERS, HEADERS_TYPE))


@dataclass
class StagedTask(WriterCommitMessage):
    """The segments that one task has staged.

    Attributes
    ----------
    query, batch : str and int, or None
        Id of the streaming query and number of the batch.
    staged : dict
        Paths of segments by topic. Without topics, the key of the only log is None.
    """

    query: str | None = None
    batch: int | None = None
    staged: dict[str | None, list[str]] = field(default_factory=dict)


class _Sink:
    """The part that both writers share."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        checked = WriteOptions.parse(options)
        names = [name.lower() for name in schema.fieldNames()]
        check_schema(schema)
        self.names = names
        self.target = Target(checked, by_column="topic" in names)
        self.transaction = checked.transaction

    def stage(self, batches: Iterable[pa.RecordBatch], task: StagedTask, job: str) -> StagedTask:
        writers: dict[str | None, StagingWriter] = {}
        folder = self.target.folder(job)
        try:
            for batch in batches:
                for topic, part in self._by_topic(batch.rename_columns(self.names)):
                    if topic not in writers:
                        if len(writers) >= _TOPICS_LIMIT:
                            raise RecordTypeError(
                                f"one task has records of more than {_TOPICS_LIMIT} topics: "
                                "repartition the data frame by 'topic' first"
                            )
                        writers[topic] = StagingWriter(folder, self.target.size_of(topic))
                    writers[topic].write(with_header_maps(part))
            task.staged = {topic: writer.finish() for topic, writer in writers.items()}
        except BaseException:
            for writer in writers.values():
                writer.discard()
            raise
        return task

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
        """Split a batch by its column `topic`. The rows of each topic keep their order."""
        if not self.target.by_column or not batch.num_rows:
            yield None, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise RecordTypeError(
                "the column 'topic' has a null: give each record the name of a log, or name one "
                "log for all with option('topic')"
            )
        found = topics.dictionary_encode()
        if len(found.dictionary) == 1:
            yield found.dictionary[0].as_py(), batch
            return
        for index, topic in enumerate(found.dictionary.to_pylist()):
            yield topic, batch.filter(_equal(found.indices, index))

    def join_all(
        self,
        messages: Sequence[WriterCommitMessage | None],
        job: str,
        query: str | None = None,
        batch: int | None = None,
    ) -> None:
        """Join the segments of all tasks, log by log, in the order of the tasks."""
        staged: dict[str | None, list[str]] = {} if self.target.by_column else {None: []}
        for message in messages:
            if isinstance(message, StagedTask):
                for topic, segments in message.staged.items():
                    staged.setdefault(topic, []).extend(segments)
        columns = _WITH_HEADERS if HEADERS in self.names else _STAGED
        for topic in sorted(staged, key=str):
            size = self.target.size_of(topic)
            options = Options(segment_size=size)
            join(
                self.target.log_path(topic),
                _merge(staged[topic], self.target.folder(job), size, columns),
                query=query,
                batch=batch,
                options=options,
            )

    def give_up(self, messages: Sequence[WriterCommitMessage | None], job: str) -> None:
        """Remove the staged segments that have not joined."""
        topics: set[str | None] = set() if self.target.by_column else {None}
        for message in messages:
            if isinstance(message, StagedTask):
                topics.update(message.staged)
        self.target.clear(job, list(topics))


def _merge(staged: list[str], folder: str, size: int, columns: pa.Schema) -> list[str]:
    """Write successive small segments as one. Each joined segment is a file of the log, and a batch
    of a stream would leave one for each of its tasks.
    """
    segments = [segment for path in staged if (segment := _slice_of(path)) is not None]
    if len(segments) < len(staged):
        return staged  # they have joined, or the join reports the missing or damaged one
    merged: list[str] = []
    for is_small, found in itertools.groupby(segments, lambda one: one.read_bytes <= _SMALL_BYTES):
        run = [*found]
        paths = [segment.location for segment in run]
        if is_small and len(run) > 1:
            writer = StagingWriter(folder, size)
            try:
                for rows in read_slices(run, columns):
                    writer.write(with_header_maps(rows))
                paths = writer.finish()
            except BaseException:
                writer.discard()
                raise
        merged += paths
    return merged


def _slice_of(path: str) -> Slice | None:
    """Return all records of a staged segment; None if it is missing or damaged."""
    with contextlib.suppress(FileNotFoundError), open(open_regular(path), "rb") as file:
        page = file.read(HEADER_SIZE)
        found = PieceDecoder.identify(page) if len(page) == HEADER_SIZE else None
        if found is not None:
            uuid, base, size = found
            seal = PieceDecoder(page, uuid, base, size, path).seal
            if seal is not None:
                return Slice(
                    topic="", location=path, uuid=uuid, base=base, size=size, stop=seal.end
                )
    return None


def _equal(indices: pa.Array, index: int) -> pa.Array:
    import pyarrow.compute as pc

    return pc.equal(indices, index)


class LogWriter(DataSourceArrowWriter):
    """``df.write.format("commitlog").mode("append")``: all records of the data frame join each log
    at once, or none.

    Raises
    ------
    InvalidOptionError, RecordTypeError
        An option or a column is not valid.
    LogLockedError, NotALogError, ReadOnlyError
        The log cannot be written. Nothing was changed.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError(
                "mode 'overwrite' is not supported: a log only grows. Use mode 'append' with a "
                "new path, or first delete the log with `commitlog remove`"
            )
        self.sink = _Sink(options, schema)
        self.job = f"job-{uuid.uuid4()}"
        self.sink.target.check()
        self.sink.target.check_held()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage one partition, in a task."""
        return self.sink.stage(iterator, StagedTask(), self.job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Join the staged segments, on the driver."""
        self.sink.join_all(messages, self.job, *(self.sink.transaction or (None, None)))
        self.sink.give_up(messages, self.job)
        self.sink.target.sweep()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged segments."""
        self.sink.give_up(messages, self.job)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("commitlog")``: the records of a batch join each log at once, and
    only once if Spark commits the batch repeatedly.

    A log only grows, so `overwrite` has no effect. In output mode "complete", each batch appends
    the whole result, as Kafka's sink does.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self.sink = _Sink(options, schema)
        if self.sink.transaction is not None:
            raise InvalidOptionError(
                "txnAppId and txnVersion are for df.write: remove them, because a streaming query "
                "has its own id and batch numbers"
            )
        self.sink.target.check()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage one partition of a batch, in a task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if query is None or batch is None:
            raise InvalidOptionError(
                "this task does not belong to a streaming query: use df.write for a batch"
            )
        task = StagedTask(query, int(batch))
        return self.sink.stage(iterator, task, folder_of(query, int(batch)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Join a batch on the driver, if it has not joined yet."""
        query = _query_of(messages)
        if query is None:
            return  # a batch without a task has no records
        self.sink.join_all(messages, folder_of(query, batchId), query, batchId)
        self.sink.target.sweep(query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove the staged segments of a batch that has not joined. A joined batch stays."""
        query = _query_of(messages)
        if query is not None:
            self.sink.give_up(messages, folder_of(query, batchId))


def _query_of(messages: Iterable[WriterCommitMessage | None]) -> str | None:
    return next((message.query for message in messages if isinstance(message, StagedTask)), None)
