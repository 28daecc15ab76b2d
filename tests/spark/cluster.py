"""A standalone Spark cluster on loopback, from the PySpark package: one master, two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from commitlog.spark.local_session import prepare_environment
from tests.conftest import ROOT

_LIMIT_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A cluster that runs within a `with` statement.

    Parameters
    ----------
    folder : Path
        For its logs and work files.

    Attributes
    ----------
    url : str
        Of its master.
    environment : dict
        For a driver: Java, Python, and where to import from.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        prepare_environment({})
        spark_home = Path(pyspark.__file__).parent
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": path,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self._launcher = str(spark_home / "bin" / "spark-class")
        self.url = ""

    def _start(self, name: str, *arguments: str) -> Path:
        said = self._folder / f"{name}.txt"
        with said.open("wb") as output:
            command = [self._launcher, *arguments]
            self._processes.append(
                subprocess.Popen(
                    command,
                    cwd=self._folder,
                    env=self.environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
        return said

    def _await(self, said: Path, pattern: str, count: int = 1) -> re.Match[str]:
        """Wait until the output of a daemon matches a pattern `count` times; return the first
        match.
        """
        deadline = time.monotonic() + _LIMIT_S
        while True:
            found = list(re.finditer(pattern, said.read_text(errors="replace")))
            if len(found) >= count:
                return found[0]
            assert time.monotonic() < deadline, said.read_text(errors="replace")
            assert all(process.poll() is None for process in self._processes), said.read_text(
                errors="replace"
            )
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            master = self._start(
                "master", _MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            )
            self.url = self._await(master, r"Starting Spark master at (spark://\S+)")[1]
            for number in (1, 2):
                work = str(self._folder / f"work{number}")
                place = (
                    "--host",
                    "127.0.0.1",
                    "--webui-port",
                    "0",
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--work-dir",
                    work,
                )
                self._start(f"worker{number}", _WORKER, *place, self.url)
            self._await(master, r"Registering worker", 2)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
