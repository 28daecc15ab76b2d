"""Results made up for the tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from commitlog.tools.bench.case import Case, Settings
from commitlog.tools.bench.results import CaseResult, Results
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workloads import BY_NAME

MACHINE: dict[str, object] = {
    "processor": "a processor",
    "usable_cores": 2,
    "kernel": "Linux 6.1",
    "python": "CPython 3.11",
    "commitlog": "1.0.0",
    "file_system": {"type": "ext4", "device": "/dev/sda", "options": ""},
}
SILENT = (lambda *turn: None, lambda results: None)


def result_of(workload: str, setup: str, rates: list[float], **given: Any) -> CaseResult:
    """Return a case whose turns had these rates in records a second.

    `latencies_ns`, `delay_s` and `over_time` are those of each turn.
    """
    latencies_ns, delay_s = given.pop("latencies_ns", None), given.pop("delay_s", None)
    over_time = given.pop("over_time", [])
    found = BY_NAME.get(workload)
    result = CaseResult(Case(workload, setup, **given), found.unit if found else "/s")
    for rate in rates:
        sample = Sample(records=1000, value_bytes=1000, seconds=1000 / rate, wall_s=15.0)
        sample.run_delay_s, sample.rates = delay_s, over_time
        if latencies_ns is not None:
            sample.latencies_ns = np.array(latencies_ns, np.int64)
        result.add(sample)
    return result


def run_of(*cases: CaseResult, quick: bool = False) -> Results:
    """Return a run of these cases."""
    options = dataclasses.asdict(Settings(quick=quick))
    return Results("2026-01-01T00:00:00", MACHINE, options, {one.case.name: one for one in cases})


def paced(setup: str, tail_ns: int, **given: Any) -> CaseResult:
    """Return a case at a constant rate, with this 99.9th percentile."""
    latencies_ns = [300] * 1000 + [tail_ns] * 20
    given = {"latencies_ns": latencies_ns, "delay_s": 0.0} | given
    return result_of(
        "paced", setup, given.pop("rates", [2e5, 2e5]), flush="async", value_size=1024, **given
    )
