"""Exactly-once writes when all Spark processes are killed in the middle of a batch: local mode, and
a cluster that writes and reads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.repair.verification import verify
from tests.conftest import ROOT
from tests.spark.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
FILES, LINES = 4, 500
HARM = (
    "write",
    "before commit",
    "before the note",
    "after the note",
    "after the manifest",
    "after commit",
)


def run(
    folder: Path, master: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the query until it ends or is killed."""
    command = [sys.executable, "-m", "tests.spark.killed_query", str(folder), master]
    with (folder / "errors.txt").open("w") as errors:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment or {**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=600,
            check=False,
        )


def prepare(folder: Path, harm: str) -> None:
    (folder / "source").mkdir(parents=True)
    (folder / "spark").mkdir()
    (folder / "harm").write_text(f"{harm},deadly")
    for number in range(FILES):
        path = folder / "source" / f"{number}.txt"
        path.write_text("".join(f"{number} {line} {'.' * 300}\n" for line in range(LINES)))
        os.utime(path, (number + 1, number + 1))


def check(folder: Path, last: subprocess.CompletedProcess[str]) -> None:
    assert last.returncode == 0, (folder / "errors.txt").read_text()[-4000:]
    assert last.stdout.splitlines()[-1] == f"{FILES * LINES} records, {FILES * LINES} different"
    with commitlog.open(folder / "log", "r") as log:
        values = sorted(bytes(value) for value in log.tailer().values())
    assert values == sorted(
        f"{number} {line} {'.' * 300}".encode() for number in range(FILES) for line in range(LINES)
    )
    assert verify(folder / "log").sound
    assert not (folder / "log" / ".staged").exists()
    assert not (folder / "harm").exists()


@pytest.mark.parametrize("harm", HARM)
def test_kill_of_all_spark_processes_writes_each_record_once(tmp_path: Path, harm: str) -> None:
    prepare(tmp_path, harm)
    assert run(tmp_path, "local[2]").returncode == -signal.SIGKILL
    check(tmp_path, run(tmp_path, "local[2]"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize("harm", ["before commit", "after the note", "after commit"])
def test_kill_of_cluster_driver_writes_each_record_once(
    cluster: Cluster, tmp_path: Path, harm: str
) -> None:
    prepare(tmp_path, harm)
    assert run(tmp_path, cluster.url, cluster.environment).returncode == -signal.SIGKILL
    check(tmp_path, run(tmp_path, cluster.url, cluster.environment))
