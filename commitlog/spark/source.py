"""CommitLogSource: what Spark knows as the format "commitlog"."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class CommitLogSource(DataSource):
    """``format("commitlog")`` of `spark.read`, `spark.readStream`, and of a data frame's `write` and `writeStream`.

    Each part is imported when it is asked for: Spark makes one of these in short-lived processes that need one of them only.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "commitlog"
