"""A standalone Spark cluster from the PySpark package: one master, two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyspark

from commitlog.spark.local_session import prepare_environment
from tests.conftest import ROOT

_LIMIT_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class LogPosition(NamedTuple):
    """An address, and the command in front of what runs there."""

    host: str = "127.0.0.1"
    launcher: tuple[str, ...] = ()


class Cluster:
    """A cluster that runs within a `with` statement.

    Parameters
    ----------
    folder : Path
        For its logs and work files.
    places : sequence of LogPosition
        Where master and workers run; by default all on loopback.

    Attributes
    ----------
    url : str
        Of its master.
    environment : dict
        For a driver: Java, Python, and where to import from.
    """

    def __init__(self, folder: Path, places: Sequence[LogPosition] = (LogPosition(),) * 3) -> None:
        self._folder = folder
        self._places = places
        self._processes: list[subprocess.Popen[bytes]] = []
        prepare_environment({})
        spark_home = Path(pyspark.__file__).parent
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": places[0].host,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": path,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self._launcher = str(spark_home / "bin" / "spark-class")
        self.url = ""

    def _start(self, name: str, place: LogPosition, *arguments: str) -> Path:
        said = self._folder / f"{name}.txt"
        with said.open("wb") as output:
            options = ("--host", place.host, "--webui-port", "0")
            command = [*place.launcher, self._launcher, *arguments[:1], *options, *arguments[1:]]
            self._processes.append(
                subprocess.Popen(
                    command,
                    cwd=self._folder,
                    env=self.environment | {"SPARK_LOCAL_IP": place.host},
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
            first, *others = self._places
            master = self._start("master", first, _MASTER, "--port", "0")
            self.url = self._await(master, r"Starting Spark master at (spark://\S+)")[1]
            for number, place in enumerate(others, 1):
                work = str(self._folder / f"work{number}")
                resources = ("--cores", "1", "--memory", "1g", "--work-dir", work)
                self._start(f"worker{number}", place, _WORKER, *resources, self.url)
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
