"""The table of workloads, and the choice of cases from it."""

from __future__ import annotations

import pytest

from bench.workloads import OWN
from commitlog.bench.workloads import BY_NAME, WORKLOADS, choose
from commitlog.errors import InvalidOptionError


def test_names_of_all_cases_are_unique() -> None:
    names = [case.name for workload in (*WORKLOADS, *OWN) for case in workload.cases()]
    assert len(set(names)) == len(names)


def test_append_workload_covers_each_setup_and_flush_option() -> None:
    cases = BY_NAME["append"].cases()
    assert {case.setup for case in cases} == {"mapped-cold", "mapped", "pooled", "pooled-shm"}
    assert {(case.form, case.flush, case.value_size) for case in cases} == {
        (form, flush, size)
        for form in ("single", "batch", "array")
        for flush in ("none", "async", "sync")
        for size in (40, 1024)
    }


def test_named_cases_are_chosen_with_their_baseline() -> None:
    ((workload, cases),) = choose(["sync-threads"], ["pooled"], ["sync"])
    assert workload.name == "sync-threads"
    assert {(case.setup, case.flush) for case in cases} == {
        ("page-msync", None),
        ("pooled", "sync"),
    }


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ((["apend"],), "there is no workload 'apend'; did you mean 'append'?"),
        ((["nonsense"],), "there is no workload 'nonsense'; there are paced, "),
        (([], ["poled"]), "there is no setup 'poled'; did you mean 'pooled'?"),
        (([], [], ["never"]), "there is no flush 'never'; there are async, none, sync"),
        ((["paced"], [], ["sync"]), "none of these workloads"),
    ],
)
def test_unknown_name_is_an_invalid_option(chosen: tuple[list[str], ...], said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        choose(*chosen)
    assert caught.value.message.startswith(said)
