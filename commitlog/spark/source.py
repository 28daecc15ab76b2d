"""CommitLogSource: the class behind Spark's format "commitlog"."""

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

    Each method imports its part: Spark creates sources in short-lived processes that need only one
    part.
    """

    # Number of tasks that the session runs at once. `register` sets it in a subclass.
    parallelism: int | None = None
    # Each query has a scan of its own, so its filters stay in it, and its plan is not used again.
    # `register` sets it, too.
    takes_filters = False

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    def schema(self) -> str | StructType:
        """Return all columns. With `schema(...)` on Spark's reader, a query requests fewer."""
        from commitlog.spark.columns import DDL, HEADERS_DDL, MESSAGE_DDL

        given = {name.lower(): value.lower() for name, value in self.options.items()}
        with_headers = given.get("includeheaders") == "true"
        if "messagetopic" in given:
            from commitlog.spark.message_schema import schema_with

            return schema_with(self.options, with_headers=with_headers)
        columns = [DDL]
        if given.get("decode") == "true":
            columns.append(MESSAGE_DDL)
        if with_headers:
            columns.append(HEADERS_DDL)
        return ", ".join(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from commitlog.spark.reader import batch_reader

        return batch_reader(
            self.options, schema, self.parallelism, takes_filters=self.takes_filters
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        from commitlog.spark.stream import LogStreamReader

        return LogStreamReader(self.options, schema, self.parallelism)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from commitlog.spark.sink import LogWriter

        return LogWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        """Return the writer of a streaming query."""
        from commitlog.spark.sink import LogStreamWriter

        return LogStreamWriter(self.options, schema, overwrite)
