"""Batch and stream reads on a standalone cluster: one master, two workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.spark.cluster import Cluster
from tests.spark.logs_in_spark import archive, fill, numbered, sealed

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
RECORDS = 20_000
DRIVER = """
import sys
from commitlog.spark import session

master, log, cold, checkpoint = sys.argv[1:]
config = {"spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1"}
spark = session("cluster", master=master, config=config)

def places(rows):
    import os
    for row in rows:
        yield os.getppid(), row.sequence

frame = spark.read.format("commitlog").option("minPartitions", "8").load(log)
found = frame.select("sequence").rdd.mapPartitions(places).collect()
print(len({place for place, _ in found}), len({sequence for _, sequence in found}), len(found))
print(spark.read.format("commitlog").load(cold).count())

rows = []
stream = spark.readStream.format("commitlog").option("startingOffsets", "earliest")
stream = stream.option("maxOffsetsPerTrigger", 7000).load(log)
def keep(batch, number):
    rows.extend(batch.select("sequence").collect())
writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
print(len({row.sequence for row in rows}), len(rows))
spark.stop()
"""


def test_a_cluster_reads_logs_archives_and_streams(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(RECORDS))
    cold = archive(tmp_path / "log", tmp_path / "cold" / "log")
    with Cluster(tmp_path / "cluster") as cluster:
        command = [
            sys.executable,
            "-c",
            DRIVER,
            cluster.url,
            *map(str, (tmp_path / "log", cold, tmp_path / "checkpoint")),
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=cluster.environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    batch, archived, streamed = done.stdout.splitlines()
    executors, *counts = map(int, batch.split())
    assert executors >= 2
    assert counts == [RECORDS, RECORDS]
    assert int(archived) == len(sealed(tmp_path / "log")) * 512
    assert streamed == f"{RECORDS} {RECORDS}"
