"""CommitLogSource: what Spark knows as the format "commitlog"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType


class CommitLogSource(DataSource):
    """``format("commitlog")`` of `spark.read`, `spark.readStream`, and of a data frame's `write` and `writeStream`.

    Each part is imported when it is asked for: Spark makes one of these in short-lived processes that need one of them only.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "commitlog"

    def schema(self) -> str:
        """All columns; `schema(...)` of Spark's reader asks for fewer, and then no others are built."""
        from commitlog.spark.columns import DDL

        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from commitlog.spark.reader import LogReader

        return LogReader(self.options, schema)
