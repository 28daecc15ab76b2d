"""One Spark session for all tests of `tests/spark`, configured to start fast."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.conftest import ROOT

pytest.importorskip("pyspark")

# A JVM that compiles little starts fast, and a query over few rows ends before generated code pays.
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-Dlog4j2.level=error",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "ERROR",
}

# With these keys the workers of the session open sealed messages.
WORKER_KEYS = f"w1:{base64.b64encode(bytes(range(32))).decode()}"

# Spark gives the Python worker of a stream ten seconds to start, and no option changes that. A busy
# machine sometimes takes longer.
LATE_WORKER = "Python worker failed to connect back"
TIMES = 3


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: pytest.Item | None) -> bool:
    """Run a test again if it failed because a Python worker of Spark started late."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for turn in range(TIMES):
        if turn:
            item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed and LATE_WORKER in report.longreprtext for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Create the session; its workers import this checkout and its tests."""
    from commitlog.spark import session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        )
        patch.setenv("COMMITLOG_KEYS", WORKER_KEYS)  # of the JVM and its workers
        patch.chdir(folder)
        made = session(
            "tests",
            master="local[2]",
            config={
                **SETTINGS,
                "spark.local.dir": str(folder),
                "spark.sql.warehouse.dir": str(folder),
            },
        )
        patch.chdir(ROOT)
        patch.delenv("COMMITLOG_KEYS")
        # The SparkContext installs a SIGINT handler for the life of the process; tests of other
        # files send SIGINT to this process.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield made
        made.stop()
