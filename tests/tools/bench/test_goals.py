"""The project's goals, judged from the JSON of a run, and the workloads that only they need. No
test asserts a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bench import slow_flush
from bench.goals import GOALS, judge
from bench.workloads import OWN
from commitlog.tools.bench import harness
from commitlog.tools.bench.case import QUICK, Case
from commitlog.tools.bench.results import CaseResult
from commitlog.tools.bench.sample import Sample
from tests.tools.bench.made import SILENT


def case_of(workload: str, setup: str, rates: list[float], **chosen: Any) -> dict[str, object]:
    result = CaseResult(Case(workload, setup, **chosen), "/s")
    for rate in rates:
        result.add(Sample(records=1000, seconds=1000 / rate))
    return result.as_object()


def test_ratio_is_the_median_of_ratios_within_turns() -> None:
    pooled = case_of(
        "append-python", "pooled", [8.0, 40.0, 6.0], flush="async", value_size=40, form="single"
    )
    python = case_of("append-python", "python-mmap", [2.0, 10.0, 2.0], value_size=40)
    verdicts = judge({"cases": [pooled, python]})
    assert (verdicts[0].value, verdicts[0].met) == (pytest.approx(4.0), True)
    assert [later.met for later in verdicts[1:]] == [None] * (len(GOALS) - 1)


def test_gcc_that_cannot_compile_is_run_once_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "bin" / "gcc").write_text(
        f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho 'no headers' >&2\nexit 1\n"
    )
    (tmp_path / "bin" / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    slow = next(workload for workload in OWN if workload.measure is slow_flush.measure)
    found = harness.run(tmp_path / "disk", [(slow, slow.cases())], QUICK, *SILENT)
    assert {result.skipped for result in found.cases.values()} == {
        "gcc could not compile slow-flush.so: no headers"
    }
    assert found.failures == []
    assert (tmp_path / "asked").read_text() == "asked\n"
