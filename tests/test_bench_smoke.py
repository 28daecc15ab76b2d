"""`python -m bench`: every workload in every setup and with every flush option, at a size that
takes moments, and its reports.

No test asserts a time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench import columns, headline, slow_flush
from bench.goals import GOALS
from bench.workloads import OWN
from commitlog.tools.bench.case import QUICK, SETUPS
from commitlog.tools.bench.results import FORMAT
from commitlog.tools.bench.workloads import WORKLOADS
from tests.tools.bench.page import Page

# A hundred and fifty runs, some in separate processes: seconds on an idle machine, longer on a busy
# one.
pytestmark = pytest.mark.timeout(400)


@dataclasses.dataclass
class Run:
    """Run all workloads once and return the three reports."""

    status: int
    text: str
    json: dict[str, Any]
    html: str
    left: list[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("bench")
    disk = place / "disk"
    disk.mkdir()
    shown = place / "shown"
    with pytest.MonkeyPatch.context() as patch, shown.open("w", encoding="utf-8") as stream:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(command, "FULL", place / "a.json")
        status = command.main([str(disk), "--quick", "--memory"])
    html = (place / "a.html").read_text(encoding="utf-8")
    return Run(
        status,
        shown.read_text(encoding="utf-8"),
        json.loads((place / "a.json").read_text()),
        html,
        os.listdir(disk),
    )


def test_bench_runs_every_case_of_every_workload(run: Run) -> None:
    expected = [case.name for workload in (*WORKLOADS, *OWN) for case in workload.cases()]
    assert [case["name"] for case in run.json["cases"]] == expected
    assert [(case["name"], case["skipped"]) for case in run.json["cases"] if case["skipped"]] == []
    assert run.status == 0


def test_each_workload_runs_in_each_setup_and_flush_option(run: Run) -> None:
    """Checks the counts of writes too, not only the names."""
    ran = {
        (case["workload"], case["setup"], case["flush"])
        for case in run.json["cases"]
        if all(s["records"] for s in case["samples"])
    }
    for workload in (*WORKLOADS, *OWN):
        for setup in workload.setups:
            for flush in workload.flushes:
                assert (workload.name, setup, flush) in ran
    for setup in ("mapped-cold", "mapped", "pooled", "pooled-shm"):
        assert setup in SETUPS
        assert {flush for name, found, flush in ran if (name, found) == ("append", setup)} == {
            "none",
            "async",
            "sync",
        }


def test_slow_flush_shim_delays_every_flush(run: Run) -> None:
    """Each flush took at least the delay: the shim was loaded, and the log's own flushes went
    through it.
    """
    slow = [case for case in run.json["cases"] if case["workload"] == "sync-threads-slow"]
    assert len(slow) == 7
    for case in slow:
        (sample,) = case["samples"]
        assert sample["facts"]["delayed_flushes"] > 0, case["name"]
        assert case["latency_ns"]["max"] >= slow_flush.DELAY_NS, case["name"]
        if not case["baseline"]:
            assert sample["facts"]["mean_flush_s"] >= slow_flush.DELAY_NS / 1e9, case["name"]


def test_columns_workload_gives_equal_answers_to_every_query(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.columns", "--rows", "1000", "--rounds", "1"])
    columns.main()
    printed = capfd.readouterr().out
    assert (printed.count("| sealed |"), printed.count("| not sealed |")) == (7, 7)


def test_headline_picture_references_no_other_file(run: Run) -> None:
    drawn = headline.draw(run.json)
    assert drawn is not None
    page = Page(drawn)
    assert (page.open, page.loaded) == ([], [])
    assert page.seen["svg"] == 1
    assert len(re.findall(r'aria-roledescription="line mark"', drawn)) == len(headline.SETUPS)
    assert "NaN" not in drawn
    assert not re.search(r"url\(|@import|<script", drawn)


def test_report_without_constant_rate_has_no_headline(run: Run, tmp_path: Path) -> None:
    few = {
        **headline.reduced(run.json),
        "cases": [case for case in run.json["cases"] if case["workload"] != "paced"],
    }
    (tmp_path / "few.json").write_text(json.dumps(few))
    assert headline.main([str(tmp_path / "few.json"), str(tmp_path / "image.svg")]) == 1
    assert not (tmp_path / "image.svg").exists()


def test_goals_table_is_inserted_into_a_page(run: Run, tmp_path: Path) -> None:
    (tmp_path / "full.json").write_text(json.dumps(run.json))
    headline.keep(tmp_path / "full.json", tmp_path / "all.json")
    (tmp_path / "page.md").write_text(
        f"before\n{headline.PLACE.begin}\nold\n{headline.PLACE.end}\nafter\n"
    )
    assert (
        headline.main([str(tmp_path / name) for name in ("all.json", "image.svg", "page.md")]) == 0
    )
    assert (
        headline.PLACE.read(tmp_path / "page.md")
        == headline.table(headline.reduced(run.json)).strip()
    )
    assert [
        row.split(" | ")[0].removeprefix("| ")
        for row in headline.table(headline.reduced(run.json)).splitlines()[6:]
    ] == [goal.goal for goal in GOALS]


def test_documentation_has_the_table_of_the_stored_run() -> None:
    kept = json.loads(headline.RESULTS.read_text(encoding="utf-8"))
    assert headline.PLACE.read(headline.PAGE) == headline.table(kept).strip(), (
        "python -m bench.headline brings them together"
    )


def test_stored_results_give_the_same_headline_and_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "full.json").write_text(json.dumps(run.json))
    headline.keep(tmp_path / "full.json", tmp_path / "results" / "kept.json")
    text = (tmp_path / "results" / "kept.json").read_text()
    kept = json.loads(text)
    assert (headline.draw(kept), headline.table(kept)) == (
        headline.draw(run.json),
        headline.table(headline.reduced(run.json)),
    )
    assert len(text.splitlines()) < 100


def test_bench_leaves_no_files(run: Run) -> None:
    assert run.left == []


# --- JSON -----------------------------------------------------------------------------------------


def test_json_report_describes_machine_and_run(run: Run) -> None:
    assert (run.json["format"], run.json["interrupted"]) == (FORMAT, False)
    assert {
        "processor",
        "cores",
        "kernel",
        "file_system",
        "memory_bytes",
        "python",
        "commitlog",
    } <= set(run.json["machine"])
    assert {"type", "device", "options"} == set(run.json["machine"]["file_system"])
    assert run.json["options"] == dataclasses.asdict(QUICK)


def test_json_case_has_raw_samples_and_their_median(run: Run) -> None:
    for case in run.json["cases"]:
        assert len(case["samples"]) == 1, case["name"]
        sample = case["samples"][0]
        assert sample["records"] > 0, case["name"]
        assert sample["seconds"] > 0, case["name"]
        assert sample["rss_bytes"] > 0, case["name"]
        assert sample["cpu_s"] >= 0, case["name"]
        assert case["lowest"] <= case["median"] <= case["highest"], case["name"]


def test_json_latencies_are_ordered_and_have_a_histogram(run: Run) -> None:
    from hdrh.histogram import HdrHistogram

    timed = [case for case in run.json["cases"] if case["latency_ns"]]
    assert {case["workload"] for case in timed} == {
        workload.name for workload in (*WORKLOADS, *OWN) if workload.latencies
    }
    for case in timed:
        latency = case["latency_ns"]
        assert (
            latency["p50"]
            <= latency["p99"]
            <= latency["p99.9"]
            <= latency["p99.99"]
            <= latency["max"]
        ), case["name"]
        assert HdrHistogram.decode(latency["hdr"]).get_total_count() == latency["count"], case[
            "name"
        ]


def test_whole_run_judges_every_goal(run: Run) -> None:
    judged = headline.reduced(run.json)["goals"]
    assert [goal["goal"] for goal in judged] == [goal.goal for goal in GOALS]
    for goal in judged:
        assert goal["met"] is (
            goal["value"] >= goal["limit"] if goal["least"] else goal["value"] <= goal["limit"]
        ), goal


# --- the page and the table -----------------------------------------------------------------------


def test_page_of_a_quick_run_has_tables_and_charts(run: Run) -> None:
    page = Page(run.html)
    assert (page.open, page.loaded) == ([], [])
    assert page.seen["table"] == len(WORKLOADS)
    assert page.seen["figure"] >= len(WORKLOADS)


def test_table_names_all_workloads_and_goals(run: Run) -> None:
    for workload in WORKLOADS:
        assert workload.title in run.text
    for goal in GOALS:
        assert goal.goal in run.text
    assert "\x1b" not in run.text
