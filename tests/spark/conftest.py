"""One Spark session for all tests of `tests/spark`, tuned to start fast."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ROOT

pytest.importorskip("pyspark")

# A JVM that compiles little starts fast, and queries over few rows are over before generated code would pay.
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=error",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session; workers import this checkout and its tests."""
    from commitlog.spark import session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        patch.chdir(folder)
        made = session(
            "tests", master="local[2]", config={**SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)}
        )
        patch.chdir(ROOT)
        # Spark's context takes Ctrl-C for itself, for as long as the process lives; tests of other files send it to this process.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield made
        made.stop()
