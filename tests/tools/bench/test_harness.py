"""The turns of a run, and failures in them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from commitlog.errors import DiskFullError
from commitlog.tools.bench import harness, workloads
from commitlog.tools.bench.case import QUICK, Case
from commitlog.tools.bench.results import Results
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workloads import choose
from commitlog.tools.bench.workspace import SkippedError, Workspace
from tests.tools.bench.made import SILENT

MAPPED, COLD = "sustained/1024B/async/mapped", "sustained/1024B/async/mapped-cold"


def fail_on_mapped(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make the workload `sustained` the only one, and let it fail in the setup `mapped`."""
    workload = workloads.BY_NAME["sustained"]

    def measure(workspace: Workspace, case: Case) -> Sample:
        if case.setup == "mapped":
            raise error
        return workload.measure(workspace, case)

    replaced = dataclasses.replace(workload, measure=measure, baselines=())
    monkeypatch.setattr(workloads, "WORKLOADS", (replaced,))


@pytest.mark.parametrize("error", [DiskFullError("no room"), SkippedError("no room")])
def test_case_without_room_is_skipped_and_others_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail_on_mapped(monkeypatch, error)
    found = harness.run(tmp_path, choose([], ["mapped-cold", "mapped"]), QUICK, *SILENT)
    assert [bool(result.samples) for result in found.cases.values()] == [True, False]
    assert found.cases[MAPPED].skipped == "no room"
    assert found.failures == []
    assert os.listdir(tmp_path) == []


def test_turns_are_reported_and_kept_after_each_workload(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    kept: list[tuple[bool, int]] = []

    def keep(results: Results) -> None:
        kept.append((results.interrupted, len(results.cases)))

    chosen = choose(["sync-threads", "sustained"], ["mapped"])
    settings = dataclasses.replace(QUICK, turns=2, sustained_turns=1)
    found = harness.run(
        tmp_path, chosen, settings, lambda case, *count: told.append((case.name, *count)), keep
    )
    total = 4 * 2 + 2
    assert [turn[1:] for turn in told] == [(done, total) for done in range(total)]
    assert kept == [(True, 4), (True, 6)]
    assert found.interrupted is False
    assert [len(result.samples) for result in found.cases.values()] == [2] * 4 + [1] * 2


def test_order_of_turns_alternates(tmp_path: Path) -> None:
    told: list[str] = []
    chosen = choose(["sustained"], ["mapped-cold", "mapped"])
    settings = dataclasses.replace(QUICK, sustained_turns=2)
    harness.run(
        tmp_path,
        chosen,
        settings,
        lambda case, *count: told.append(case.name),
        lambda results: None,
    )
    assert told == told[::-1]
    assert len(set(told)) == 3
