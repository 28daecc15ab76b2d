"""Registration of the format with a session, whose parallelism then sizes the plans of reads."""

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
    if not hasattr(spark, "_jvm"):  # Spark Connect: the parallelism is not known
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
    """Suppress Spark's warning that this source replaces one of the same name, which Spark found
    on the Python path or an earlier call registered.
    """
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    configuration = context.getConfiguration()
    if configuration.getLoggers().containsKey(_LOGGER):
        yield  # the program has configured this logger
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
