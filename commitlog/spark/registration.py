"""Registration of the format with a session: the number of tasks of its reads, and the columns and
filters that they get.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

from commitlog.spark.source import CommitLogSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_LOGGER = "org.apache.spark.sql.execution.datasources.DataSourceManager"
_RULE = "commitlog.spark.ColumnPruning"
_logger = logging.getLogger("commitlog.spark")


def register_source(spark: SparkSession) -> None:
    """See `commitlog.spark.register`."""
    if not hasattr(spark, "_jvm"):  # Spark Connect: the JVM is out of reach
        spark.dataSource.register(CommitLogSource)
        return
    session: Any = spark
    prunes = _prune_columns(session)
    if prunes and not session._jsparkSession.conf().contains(FILTER_PUSHDOWN):
        spark.conf.set(FILTER_PUSHDOWN, "true")
    of_session = type(
        "CommitLogSource",
        (CommitLogSource,),
        {
            "parallelism": int(session.sparkContext.defaultParallelism),
            "takes_filters": prunes,
        },
    )
    known = (
        session._jsparkSession.sessionState()
        .dataSourceManager()
        .dataSourceExists(CommitLogSource.name())
    )
    with _quiet(session._jvm) if known else contextlib.nullcontext():
        spark.dataSource.register(of_session)


def _prune_columns(session: Any) -> bool:
    """Add the rule of `column_pruning.java` to the session's optimizer, if it is not there. Return
    false if this release of Spark does not fit the rule: its reads then have all columns.
    """
    from py4j.protocol import Py4JError

    extensions, jvm = session._jsparkSession.extensions(), session._jvm
    try:
        if _RULE in str(extensions.buildOptimizerRules(session._jsparkSession)):
            return True
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
        source = resources.files("commitlog.spark").joinpath("column_pruning.java")
        compiler.cook(source.read_text(encoding="utf-8"))
        rule = compiler.getClassLoader().loadClass(_RULE).getConstructors()[0]
        arguments = session.sparkContext._gateway.new_array(jvm.Object, 1)
        arguments[0] = CommitLogSource.name()
        extensions.injectOptimizerRule(rule.newInstance(arguments))
    except (Py4JError, TypeError) as error:  # a class that is not there is not callable
        _logger.info("reads have all columns, and Spark applies the filters: %s", error)
        return False
    return True


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
