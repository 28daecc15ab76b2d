"""CommitLogSource: what Spark knows as the format "commitlog"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from commitlog.spark.quiet_worker import quiet_planner

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType

quiet_planner()  # Spark's planning workers import this module first


class CommitLogSource(DataSource):
    """``format("commitlog")`` of `spark.read`, `spark.readStream`, and of a data frame's `write`
    and `writeStream`.

    Each part is imported when it is asked for: Spark makes one of these in short-lived processes
    that need one of them only.
    """

    # How many tasks the session runs at once, where `register` could ask it; None: nobody said.
    parallelism: int | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "commitlog"

    def schema(self) -> str:
        """All columns; `schema(...)` of Spark's reader asks for fewer, and then no others are
        built.
        """
        from commitlog.spark.columns import DDL

        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from commitlog.spark.reader import batch_reader

        return batch_reader(self.options, schema, self.parallelism)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream read."""
        from commitlog.spark.stream import LogStreamReader

        return LogStreamReader(self.options, schema, self.parallelism)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write."""
        from commitlog.spark.sink import LogWriter

        return LogWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        """What a streaming query writes to."""
        from commitlog.spark.sink import LogStreamWriter

        return LogStreamWriter(self.options, schema, overwrite)
