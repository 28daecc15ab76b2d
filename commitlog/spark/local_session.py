"""Open a Spark session with settings that suit this source."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from commitlog.errors import InvalidOptionError
from commitlog.spark import java
from commitlog.spark.registration import register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARCHIVES = ("spark.archives", "spark.yarn.dist.archives")
# By default Arrow checks each access from Java to a column. Spark has already checked the type and
# the length.
_ARROW_UNCHECKED = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
# By default Spark renames each file of a checkpoint through Hadoop's FileContext, which runs
# `readlink` for it on a local disk.
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# Python workers do not put their working directory before their packages; `worker_daemon` puts it
# behind them.
_SAFE_PATH = "PYTHONSAFEPATH"
SETTINGS = {
    f"spark.executorEnv.{_SAFE_PATH}": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "commitlog.spark.worker_daemon",
    "spark.driver.extraJavaOptions": _ARROW_UNCHECKED,
    "spark.executor.extraJavaOptions": _ARROW_UNCHECKED,
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def prepare_environment(config: Mapping[str, str]) -> None:
    """Set JAVA_HOME and PYSPARK_PYTHON, which Spark reads when its JVM starts."""
    home = java.home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = _interpreter(config)


def _interpreter(config: Mapping[str, str]) -> str:
    """Return the workers' interpreter: the one in the settings, or else this one, so that workers
    import the same packages.
    """
    named = config.get("spark.pyspark.python")
    if named is not None:
        return named
    archives = (
        next((config[name] for name in _ARCHIVES if config.get(name)), None)
        or _submitted_archives()
    )
    if archives is None:
        return sys.executable
    raise InvalidOptionError(
        f"the session ships {archives} to the executors and does not name their interpreter: set "
        "PYSPARK_PYTHON or spark.pyspark.python to ./NAME/bin/python, where NAME is the part of "
        f"the archive after #, or to {sys.executable} if the executors have that file"
    )


def _submitted_archives() -> str | None:
    """Return the archives that `spark-submit` got in client mode, or those in
    PYSPARK_SUBMIT_ARGS.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        return next(
            (value for name, value in itertools.pairwise(words) if name == "--archives"), None
        )
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM of spark-submit
    submitted: Any = SparkConf()
    return next((found for name in _ARCHIVES if (found := submitted.get(name))), None)


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Have the JVM that starts meanwhile give the variable to each of its Python processes."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = before or "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]


def open_session(app_name: str, master: str | None, config: Mapping[str, str]) -> SparkSession:
    """See `commitlog.spark.session`."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        prepare_environment(config)
        builder = SparkSession.builder.appName(app_name)
        if master is not None or "SPARK_REMOTE" not in os.environ:
            builder = builder.master(master or "local[*]")
        for name, value in {**SETTINGS, **config}.items():
            builder = builder.config(name, value)
        with _safe_path():
            active = builder.getOrCreate()
    register_source(active)
    return active
