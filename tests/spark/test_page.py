"""docs/spark.md: its code runs, and its tables agree with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from commitlog.spark import read_options, write_options
from commitlog.spark.columns import DDL
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def test_code_of_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert code.count("spark.read.") >= 4
    # The driver's Java has its own working directory, not the test's.
    for path in (
        "shop/orders",
        "shop",
        "checkpoint",
        "shop/sales",
        "shop/sold",
        "shop/copied",
        "copying",
        "shop-parquet",
        "shop-latest",
    ):
        absolute = repr(str(tmp_path / path))
        code = code.replace(f'"{path}"', absolute).replace(f"'{path}'", absolute)
    exec(compile(code, "docs/spark.md", "exec"), {})


def _table(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")
    ]
    return [[cell.strip() for cell in row] for row in rows]


def test_schema_matches_the_columns_table() -> None:
    assert ", ".join(f"{name.strip('`')} {kind}" for name, kind, _ in _table("Columns")) == DDL


def test_read_options_match_the_options_table() -> None:
    named = [name for row in _table("Options") for name in re.findall(r"`(\w+)`", row[0])]
    known = {*read_options._BOTH, *read_options._BATCH_ONLY, *read_options._STREAM_ONLY} - {
        "path",
        "paths",
    }
    assert set(named) == known
    assert len(named) == len(known)


def test_write_columns_and_options_match_the_tables() -> None:
    named = {name for row in _table("Writing") for name in re.findall(r"`(\w+)`", row[0])}
    assert named == {*write_options._TAKEN, *write_options._OPTIONS} - {"path"}
