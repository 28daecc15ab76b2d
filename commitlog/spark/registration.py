"""Registration of the format with a session, which is asked how many tasks it runs at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from commitlog.spark.source import CommitLogSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER = "org.apache.spark.sql.execution.datasources.DataSourceManager"


def register_source(spark: SparkSession) -> None:
    """See `commitlog.spark.register`."""
    if not hasattr(spark, "_jvm"):  # Spark Connect: only its server knows
        spark.dataSource.register(CommitLogSource)
        return
    session: Any = spark
    sized = type(
        "CommitLogSource",
        (CommitLogSource,),
        {"parallelism": int(session.sparkContext.defaultParallelism)},
    )
    known = (
        session._jsparkSession.sessionState()
        .dataSourceManager()
        .dataSourceExists(CommitLogSource.name())
    )
    with _quiet(session._jvm) if known else contextlib.nullcontext():
        spark.dataSource.register(sized)


@contextlib.contextmanager
def _quiet(jvm: Any) -> Iterator[None]:
    """Keep Spark from warning that a source replaces the one of the same name that it has found by
    itself, or that was here before.
    """
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    configuration = context.getConfiguration()
    if configuration.getLoggers().containsKey(_LOGGER):
        yield  # somebody has said what is to be logged
        return
    configuration.addLogger(
        _LOGGER, log4j.core.config.LoggerConfig(_LOGGER, log4j.Level.ERROR, True)
    )
    context.updateLoggers()
    try:
        yield
    finally:
        configuration.removeLogger(_LOGGER)
        context.updateLoggers()
