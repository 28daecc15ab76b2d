"""Classic sessions: those whose driver is this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commitlog.errors import InvalidOptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_classic(spark: SparkSession, work: str) -> None:
    """Refuse a session of Spark Connect for work that needs the driver's own objects.

    Raises
    ------
    InvalidOptionError
        The session has no JVM.
    """
    if not hasattr(spark, "_jvm"):
        raise InvalidOptionError(
            f"{work} needs a classic session, and this is one of Spark Connect: run it where "
            "Spark's driver runs"
        )
