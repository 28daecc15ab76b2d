"""A Spark session for those who have none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from commitlog.spark import java, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Arrow checks each access from Java to a column otherwise, although Spark has asked for the type and the length before.
_ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "commitlog.spark.worker_daemon",
    "spark.driver.extraJavaOptions": _ARROW_UNCHECKED,
    "spark.executor.extraJavaOptions": _ARROW_UNCHECKED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def prepare_environment() -> None:
    """What has to be in the environment before Spark's JVM starts: a Java, and this interpreter for the workers, so that they find what
    this one finds."""
    home = java.home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def open_session(app_name: str, master: str | None, config: Mapping[str, str]) -> SparkSession:
    """See `commitlog.spark.session`."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("commitlog.spark needs pyspark: pip install 'commitlog-engine[spark]'") from error
    active = SparkSession.getActiveSession()
    if active is None:
        prepare_environment()
        builder = SparkSession.builder.appName(app_name)
        if master is not None or "SPARK_REMOTE" not in os.environ:
            builder = builder.master(master or "local[*]")
        for name, value in {**SETTINGS, **config}.items():
            builder = builder.config(name, value)
        active = builder.getOrCreate()
    register(active)
    return active
