"""Reads over Spark Connect, where the optimizer rule is always missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.spark.logs_in_spark import fill, numbered

for _package in ("pandas", "grpc", "grpc_status"):
    pytest.importorskip(_package)

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from commitlog.spark import register
from tests.spark.logs_in_spark import fill, numbered

path = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
register(spark)
frame = spark.read.format("commitlog").load(path)
spark.sql(f"CREATE TEMPORARY VIEW records USING commitlog OPTIONS (path '{path}')")


def counts():
    viewed = spark.sql("SELECT count(*) FROM records").first()[0]
    return frame.count(), len(frame.collect()), viewed


before = counts()
fill(sys.argv[1], numbered(30))
late = frame.where("timestamp < timestamp'+12000-01-01'").count()
print("found", before, counts(), late)
"""


def test_data_frame_and_view_over_connect_see_later_records(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(50))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "log")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "found (50, 50, 50) (80, 80, 80) 80" in done.stdout, done.stderr[-4000:]
