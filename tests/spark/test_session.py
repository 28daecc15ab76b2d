"""The session that commitlog makes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog.spark import register, session


def test_workers_run_with_this_interpreter(spark: Any) -> None:
    def executable(rows: Any) -> Any:
        import sys

        yield sys.executable

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(executable).collect() == [sys.executable]


def test_the_function_stays_where_it_was(spark: Any) -> None:
    from commitlog.spark import session as again

    assert again is session


def test_registration_takes_the_parallelism_silently(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with commitlog.open(tmp_path / "log", segment_size="1MiB") as log:
        log.append_array(np.zeros((120_000, 100), dtype=np.uint8))
    spark.sparkContext.setLogLevel("WARN")
    try:
        register(spark)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert "replaced" not in capfd.readouterr().err
    counted = spark.read.format("commitlog").load(str(tmp_path / "log")).rdd.getNumPartitions()
    assert counted == spark.sparkContext.defaultParallelism == 3


def test_where_a_session_is_active_it_is_taken(spark: Any) -> None:
    assert session() is spark


def test_workers_come_from_our_daemon_over_a_unix_socket(spark: Any) -> None:
    def how(rows: Any) -> Any:
        import os
        from pathlib import Path

        yield Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8").split("\0"), os.environ["PYTHON_UNIX_DOMAIN_ENABLED"]

    command, unix = spark.sparkContext.parallelize([0], 1).mapPartitions(how).collect()[0]
    assert command[1:3] == ["-m", "commitlog.spark.worker_daemon"]
    assert unix.lower() == "true"
