"""`python -m bench.replicated`: every row runs at a tiny size. No test asserts a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from bench.replicated import __main__ as command
from bench.replicated.rows import ROWS


def test_every_row_prints_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--turns", "1", "--appends", "20", "--mebibytes", "1", "--delay-ms", "0.1"]
    assert command.main([str(tmp_path), "--memory", *sizes]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["row"] for row in rows] == list(ROWS)
    assert rows[0]["replicated p50 us"] > 200.0  # two delays of 0.1 ms
    assert not list(tmp_path.iterdir())
