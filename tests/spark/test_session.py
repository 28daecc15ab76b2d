"""The session that `commitlog.spark.session` creates."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog.errors import InvalidOptionError
from commitlog.spark import register, session
from commitlog.spark.local_session import prepare_environment


def test_workers_run_with_this_interpreter(spark: Any) -> None:
    def executable(rows: Any) -> Any:
        import sys

        yield sys.executable

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(executable).collect() == [
        sys.executable
    ]


def test_session_function_keeps_its_import_path(spark: Any) -> None:
    from commitlog.spark import session as again

    assert again is session


def test_register_again_logs_no_warning_and_keeps_parallelism(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
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


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the environment variables that name an interpreter."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        # So that monkeypatch restores the variable.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("bare")
def test_setting_names_the_interpreter_of_workers() -> None:
    prepare_environment(
        {"spark.archives": "env.tar.gz#env", "spark.pyspark.python": "./env/bin/python"}
    )
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"


@pytest.mark.usefixtures("bare")
def test_archives_without_pyspark_python_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOptionError, match="ships env.tar.gz#env .*PYSPARK_PYTHON"):
        prepare_environment({"spark.archives": "env.tar.gz#env"})
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--archives other.zip#env pyspark-shell")
    with pytest.raises(InvalidOptionError, match="ships other.zip#env"):
        prepare_environment({})
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    prepare_environment({})
    assert os.environ["PYSPARK_PYTHON"] == "python3"


def test_session_returns_the_active_session(spark: Any) -> None:
    assert session() is spark


def test_streams_rename_checkpoint_files_without_a_fork(spark: Any) -> None:
    name = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    manager = spark._jvm.java.lang.Class.forName(name)
    assert manager.getSimpleName() == "FileSystemBasedCheckpointFileManager"


def test_workers_run_in_commitlog_daemon_over_unix_socket(spark: Any) -> None:
    def how(rows: Any) -> Any:
        import os
        from pathlib import Path

        yield (
            Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8").split("\0"),
            os.environ["PYTHON_UNIX_DOMAIN_ENABLED"],
        )

    command, unix = spark.sparkContext.parallelize([0], 1).mapPartitions(how).collect()[0]
    assert command[1:3] == ["-m", "commitlog.spark.worker_daemon"]
    assert unix.lower() == "true"


def test_workers_look_for_modules_in_their_directory_last(spark: Any) -> None:
    def how(rows: Any) -> Any:
        import os
        import sys

        yield sys.flags.safe_path, [os.path.realpath(each) for each in sys.path], os.getcwd()

    safe, path, cwd = spark.sparkContext.parallelize([0], 1).mapPartitions(how).collect()[0]
    assert safe
    assert path.index(os.path.realpath(cwd)) == len(path) - 1
    assert os.environ.get("PYTHONSAFEPATH") is None
