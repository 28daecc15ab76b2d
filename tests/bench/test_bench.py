"""`commitlog bench`: what is chosen, what is refused, what happens when a run goes wrong, and the
parts. No test asserts a time.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from commitlog import cli
from commitlog.bench import ground, harness, machine, report_page, report_table, workloads
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, NoRoomError
from commitlog.bench.histogram import Histogram
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.sample import Sample
from commitlog.bench.settings import QUICK
from commitlog.bench.workloads import WORKLOADS, choose
from commitlog.errors import DiskFullError, InvalidOptionError
from tests.bench.page import Page


def test_names_of_cases_tell_them_apart() -> None:
    names = [case.name for workload in WORKLOADS for case in workload.cases()]
    assert len(set(names)) == len(names)


def test_setups_and_flushes_are_those_that_are_asked_for() -> None:
    cases = [case for case in workloads.BY_NAME["append"].cases() if not case.baseline]
    assert {case.setup for case in cases} == {"mapped-cold", "mapped", "pooled", "pooled-shm"}
    assert {(case.form, case.flush, case.value_size) for case in cases} == {
        (form, flush, size)
        for form in ("single", "batch", "array")
        for flush in ("none", "async", "sync")
        for size in (40, 1024)
    }


def test_without_rich_the_table_is_plain(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    text = report_table.render(results)
    assert "Opening a clean log of many segments (open; latencies: an open)" in text
    assert "read-only" in text


# --- selection and bad input ----------------------------------------------------------------------


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.run(["bench", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_list_names_every_case_and_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = answer(capsys, "--list")
    assert status == 0
    assert "append/single/40B/async/pooled" in out.split()
    assert {f"  {case.name}" for workload in WORKLOADS for case in workload.cases()} <= set(
        out.splitlines()
    )


def test_only_what_is_named_is_chosen() -> None:
    ((workload, cases),) = choose(["append"], ["pooled"], ["sync"])
    assert workload.name == "append"
    assert {(case.setup, case.flush) for case in cases} == {
        ("python-mmap", None),
        ("pooled", "sync"),
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-w", "apend"], "did you mean 'append'"),
        (["-w", "nonsense"], "there are append"),
        (["--setup", "poled"], "did you mean 'pooled'"),
        (["--flush", "never"], "there are async, none, sync"),
        (["-w", "paced", "--flush", "sync"], "none of these workloads"),
        (["--seconds", "soon"], "'--seconds': expected a time such as"),
        (["--seconds", "0"], "'--seconds': expected at least 0.05 seconds"),
        (["--size", "much"], "'--size': expected a size such as"),
        (["--size", "1"], "'--size': expected at least 1048576 bytes"),
        (["--rate", "-1"], "'--rate': expected a size such as"),
        (["--turns", "0"], "expected a whole number from 1 to 100"),
        (["--json", "absent/a.json"], "there is no directory for"),
        (["absent"], "does not exist"),
        (["--nonsense"], "No such option"),
    ],
)
def test_bad_input_is_refused_with_status_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = [] if arguments == ["absent"] else [str(tmp_path)]
    status, out, err = answer(capsys, *place, *arguments)
    assert (status, out) == (cli.USAGE, "")
    assert said in err
    assert os.listdir(tmp_path) == []


def test_without_a_directory_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = answer(capsys)
    assert status == cli.USAGE
    assert "name the directory" in err


def test_memory_is_refused_where_a_disk_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        machine,
        "file_system",
        lambda directory: {"type": "tmpfs", "device": "tmpfs", "options": ""},
    )
    status, out, err = answer(capsys, str(tmp_path), "--quick", "-w", "open")
    assert (status, out) == (cli.FAILURE, "")
    assert "tmpfs, which is memory" in err
    assert answer(capsys, str(tmp_path), "--quick", "--memory", "-w", "open")[0] == 0


# --- room, failures, Ctrl-C -----------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    yield harness.run(tmp_path, choose(["open"], ["mapped"]), QUICK)
    assert os.listdir(tmp_path) == []


def with_failing_open(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have the read-only opens of the workload `open` fail."""
    workload = workloads.BY_NAME["open"]

    def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
        if case.form == "read-only":
            raise error
        return workload.measure(ground, case, hashed)

    monkeypatch.setattr(workloads, "WORKLOADS", (dataclasses.replace(workload, measure=measure),))


def test_a_case_without_room_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = ground.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(ground.shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    status, out, _ = answer(
        capsys, str(tmp_path), "--quick", "--memory", "-w", "open", "--setup", "mapped"
    )
    assert status == 0
    assert re.search(r"skipped: open/append/mapped: needs \d+ MiB of room", out)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "error", [DiskFullError("no room"), NoRoomError("no room")], ids=["in the middle", "before"]
)
def test_the_others_are_measured_when_one_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with_failing_open(monkeypatch, error)
    found = harness.run(tmp_path, choose([], ["mapped"]), QUICK)
    assert [bool(result.samples) for result in found.cases.values()] == [True, False]
    assert found.cases["open/read-only/mapped"].skipped == "no room"
    assert found.failures == []


def test_a_case_that_fails_is_named_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_failing_open(monkeypatch, OSError(errno.EIO, "broken disk"))
    status, out, _ = answer(capsys, str(tmp_path), "--quick", "--memory", "--setup", "mapped")
    assert status == cli.FAILURE
    assert "FAILED: open/read-only/mapped: OSError: [Errno 5] broken disk" in out


def test_ctrl_c_keeps_what_there_is_and_marks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_failing_open(monkeypatch, KeyboardInterrupt())
    disk, kept = tmp_path / "disk", tmp_path / "kept.json"
    disk.mkdir()
    status, out, _ = answer(
        capsys, str(disk), "--quick", "--memory", "--setup", "mapped", "--json", str(kept)
    )
    assert status == 128 + signal.SIGINT
    assert "INTERRUPTED" in out
    saved = json.loads(kept.read_text())
    assert saved["interrupted"] is True
    assert [len(case["samples"]) for case in saved["cases"]] == [1, 0]
    assert os.listdir(disk) == []


def test_a_log_that_holds_something_else_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground, "value_of", bytes)
    ((workload, cases),) = choose(["sync-threads"], ["mapped"])
    found = harness.run(
        tmp_path, [(workload, [case for case in cases if case.threads == 4])], QUICK
    )
    (result,) = found.failures
    assert "does not hold what was appended" in result.skipped


# --- the parts ------------------------------------------------------------------------------------


def test_a_histogram_has_the_percentiles_of_its_values() -> None:
    seed = 20260101
    print(f"seed {seed}")
    values = np.random.default_rng(seed).lognormal(10, 2, 100_000).astype(np.int64) + 1
    histogram = Histogram()
    for part in np.split(values, 4):
        histogram.add(part)
    ordered = np.sort(values)
    assert (histogram.count, histogram.largest_ns) == (len(values), ordered[-1])
    for percentile in (50.0, 99.0, 99.9, 99.99):
        exact = ordered[round(percentile / 100 * len(values)) - 1]
        assert histogram.at(percentile) == pytest.approx(exact, rel=2e-3)
    whole: dict[str, Any] = histogram.as_object()
    theirs = HdrHistogram.decode(whole["hdr"])
    percentiles = [0.001, 50.0, 99.0, 99.9, 99.99]
    assert [histogram.at(each) for each in percentiles] == [
        theirs.get_value_at_percentile(each) for each in percentiles
    ]
    steps = [
        (step.percentile_level_iterated_to, step.value_iterated_to)
        for step in theirs.get_percentile_iterator(5)
    ]
    assert [percentile for percentile, _ in histogram.curve()] == pytest.approx(
        [percentile for percentile, _ in steps]
    )
    assert [value for _, value in histogram.curve()] == [
        min(value, ordered[-1]) for _, value in steps
    ]
    histogram.add(np.array([1, 2, 3], np.int64))
    assert (whole["count"], histogram.as_object()["count"]) == (len(values), len(values) + 3)
    curve = histogram.curve()
    assert curve == sorted(curve)
    assert curve[-1] == (100.0, ordered[-1])


def result_of(workload: str, setup: str, rates: list[float], **chosen: Any) -> CaseResult:
    result = CaseResult(Case(workload, setup, **chosen), "records")
    for rate in rates:
        result.add(Sample(records=1000, seconds=1000 / rate))
    return result


def test_medians_and_spread_are_those_of_the_turns() -> None:
    result = result_of(
        "read", "mapped", [10.0, 20.0, 40.0], flush="async", value_size=40, form="values"
    )
    assert result.median == pytest.approx(20.0)
    assert result.spread == pytest.approx(1.5)


def test_an_unknown_workload_is_an_invalid_option() -> None:
    with pytest.raises(InvalidOptionError, match="there is no workload 'nonsense'"):
        choose(["nonsense"])


def test_a_page_without_any_sample_is_a_page(tmp_path: Path) -> None:
    page = Page()
    page.feed(report_page.page(Results("now", machine.describe(tmp_path), {})))
    assert page.open == []
