"""`python -m bench.spark`: the table compares the figures with the goals; every row runs at a tiny
size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from bench.spark import __main__ as command
from bench.spark import rows, table
from tests.conftest import ROOT

MEASURED: dict[str, Any] = {
    "batch": {
        "seconds": {
            "Parquet: count()": [0.2, 0.1, 0.3],
            "log: count()": [0.25, 0.3, 0.9],
            "Parquet: sum(length(value))": [0.3],
            "log: sum(length(value))": [0.45],
            "Parquet: 7 columns into the noop sink": [0.4],
            "log: 7 columns into the noop sink": [0.5],
        }
    },
    "one-percent": {"read_bytes": 1000, "whole_bytes": 100_000},
    "memory": {"worker_bytes": [90 << 20, 80 << 20], "log_bytes": 240 << 20},
    "large-batches": {"batch_ms": [250, 250], "batch_records": [500_000, 500_000]},
    "small-batches": {"batch_ms": [200, 300, 220], "batch_records": [20_000] * 3},
    "live": {"latency_ms": [200.0, 310.0, 320.0]},
    "write": {"seconds": {"write": [1.9, 2.5]}},
}


def test_table_shows_which_goals_are_met() -> None:
    said = table.render({"records": 2_000_000, "rows": MEASURED})
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in said.splitlines()}
    beside = ", log beside Parquet"
    assert "| 300 beside 200 ms: 1.50 | at most 1.5 | yes |" in lines["count()" + beside]
    assert "| 450 beside 300 ms: 1.50 |  |  |" in lines["sum(length(value))" + beside]
    noop = lines["7 columns into the noop sink" + beside]
    assert "| 500 beside 400 ms: 1.25 | at most 1.1 | no |" in noop
    assert "| 1.00 % | 1 % | yes |" in lines["bytes read for 1 % of the offsets"]
    stream = "stream into the noop sink, 7 columns, batches of "
    large, small = lines[stream + "500,000 records"], lines[stream + "20,000 records, median"]
    assert "| 2.00 M records/s | at least 1.5 M/s | yes |" in large
    assert "| 220 ms | at most 250 ms | yes |" in small
    assert "| 310 ms | at most 300 ms | no |" in lines["live append to foreachBatch, p50"]
    assert "| 1.05 M records/s | at least 1 M/s | yes |" in lines["write"]


def test_page_has_the_table_of_the_kept_run() -> None:
    kept = json.loads(command.RESULTS.read_text(encoding="utf-8"))
    assert table.PLACE.read(command.PAGE) == table.render(kept).strip(), (
        "python -m bench.spark puts it there"
    )


def test_every_row_has_lines_in_the_table() -> None:
    assert list(MEASURED) == list(rows.BY_NAME)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_small_pass_measures_every_row(tmp_path: Path) -> None:
    kept = tmp_path / "spark.json"
    command = [
        sys.executable,
        "-m",
        "bench.spark",
        str(tmp_path),
        "--scale",
        "0.005",
        "--turns",
        "1",
        "--memory",
        "--json",
        str(kept),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(kept.read_text())
    assert list(results["rows"]) == list(rows.BY_NAME)
    assert table.render(results) == done.stdout
    assert os.listdir(tmp_path) == ["spark.json"]
