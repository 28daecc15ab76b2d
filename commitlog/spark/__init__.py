"""Read and write commit logs in Spark, for instance by
``spark.read.format("commitlog").load(path)``. See docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from commitlog.base.extras import imported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: SparkSession) -> None:
    """Register the format "commitlog" with a session, and plan reads for the session's
    `defaultParallelism`.

    If `pyspark_commitlog` is on the Python path, Spark finds the format without this call. Reads
    are then planned for the driver's cores.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session.
    """
    from commitlog.spark.registration import register_source

    register_source(spark)


def session(
    app_name: str = "commitlog",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the active Spark session, or a new one with settings that suit this source, and
    register the format "commitlog" with it.

    `commitlog.spark.java.home` describes how Java is found. Python workers run the interpreter that
    PYSPARK_PYTHON or the setting `spark.pyspark.python` names [default: this one].

    Parameters
    ----------
    app_name : str
        The session's name in Spark's web pages and logs.
    master : str, optional
        Spark's master URL [default: "local[*]", all cores of this machine; with SPARK_REMOTE set,
        Spark chooses].
    config : mapping of str to str, optional
        Spark settings. They override the settings that this function chooses.

    Returns
    -------
    pyspark.sql.SparkSession
        The session. Stop it by its `stop()`.

    Raises
    ------
    ModuleNotFoundError
        PySpark or a Java for it is not installed: ``pip install 'commitlog-engine[spark]'``.
    InvalidOptionError
        JAVA_HOME names no Java, or a Java that is too old. Or the session ships archives to the
        executors and names no interpreter for them.
    """
    imported("pyspark", "commitlog.spark", "spark")
    from commitlog.spark.local_session import open_session

    return open_session(app_name, master, config or {})
