"""The table of workloads, and the choice of cases from it."""

from __future__ import annotations

from bench.workloads import OWN
from commitlog.tools.bench.workloads import WORKLOADS, choose


def test_names_of_all_cases_are_unique() -> None:
    names = [case.name for workload in (*WORKLOADS, *OWN) for case in workload.cases()]
    assert len(set(names)) == len(names)


def test_named_cases_are_chosen_with_their_baseline() -> None:
    ((workload, cases),) = choose(["sync-threads"], ["pooled"])
    assert workload.name == "sync-threads"
    assert {(case.setup, case.flush) for case in cases} == {
        ("page-msync", None),
        ("pooled", "sync"),
    }
