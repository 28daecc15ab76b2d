"""Commit logs in Spark: ``spark.read.format("commitlog").load(path)`` and what goes with it. See
docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from commitlog.base.extras import imported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: SparkSession) -> None:
    """Make the format "commitlog" known to a session, and the session's `defaultParallelism` known
    to the format.

    Spark finds the format by itself where `pyspark_commitlog` is on the Python path. Then reads are
    planned for the driver's cores.

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
    """A Spark session with sensible settings and the format "commitlog" registered; the active
    session where there is one.

    Java is found as `commitlog.spark.java.home` says. Python workers run with the interpreter that
    PYSPARK_PYTHON, or the setting `spark.pyspark.python`, names; else with this one.

    Parameters
    ----------
    app_name : str
        Its name in Spark's pages and logs.
    master : str, optional
        Where it runs: "local[*]", all cores of this machine, unless a Spark configuration says
        otherwise.
    config : mapping of str to str, optional
        Spark's own settings, which win over the ones chosen here.

    Returns
    -------
    pyspark.sql.SparkSession
        Stop it with its own `stop()`.

    Raises
    ------
    ModuleNotFoundError
        PySpark, or a Java that it could run on, is not there: ``pip install
        'commitlog-engine[spark]'``.
    InvalidOptionError
        JAVA_HOME names no Java, or one that is too old. Or archives are shipped to the executors,
        and no interpreter is named for them.
    """
    imported("pyspark", "commitlog.spark", "spark")
    from commitlog.spark.local_session import open_session

    return open_session(app_name, master, config or {})
