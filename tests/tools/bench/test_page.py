"""The page of a run: headline, verdict and charts, without loading any resource."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import vl_convert

from commitlog.tools.bench import machine, page
from commitlog.tools.bench.charts import COLOURS
from commitlog.tools.bench.results import CaseResult, Results
from tests.tools.bench.made import paced, result_of, run_of
from tests.tools.bench.page import Page

SETUPS = ("mapped-cold", "mapped", "pooled", "pooled-shm")


def full() -> Results:
    """Return a run of every workload in every setup."""
    cases: list[CaseResult] = [paced("pacing-alone", 40_000)]
    cases += [paced(setup, 1_000_000 * (4 - index)) for index, setup in enumerate(SETUPS)]
    sync = {"flush": "sync", "value_size": 40, "latencies_ns": [90_000] * 50}
    for threads in (1, 16):
        cases += [result_of("sync-threads", one, [1e4], threads=threads, **sync) for one in SETUPS]
    curve = [(0.1, 1e8), (0.2, 2e8), (0.3, 1e8)]
    cases += [result_of("sustained", one, [1e6, 2e6], over_time=curve) for one in SETUPS]
    for form in ("single", "batch"):
        cases += [result_of("append", one, [5e6], form=form, value_size=40) for one in SETUPS]
    return run_of(*cases)


@pytest.fixture(scope="module", autouse=True)
def bundled_once() -> Iterator[None]:
    """Bundle the library of the charts once for all pages: it takes two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(vl_convert.javascript_bundle)
        patch.setattr(vl_convert, "javascript_bundle", once)
        yield


@pytest.fixture(scope="module")
def made() -> str:
    return page.page(full())


def test_page_is_well_formed_and_loads_nothing(made: str) -> None:
    found = Page(made)
    assert (found.open, found.loaded) == ([], [])
    assert "link" not in found.seen
    outside = made.partition("<script>")[0] + made.rpartition("<script>")[2]
    assert not re.search(r"url\(|@import|https?://|fetch\(", outside)


def test_each_chart_has_a_place_a_title_and_units(made: str) -> None:
    found = Page(made)
    assert len(found.specs) == 2 + 2 + 2 + 1
    assert [f"chart-{number}" for number in range(len(found.specs))] == [
        name for name in found.ids if name.startswith("chart-")
    ]
    assert found.seen["figcaption"] == len(found.specs)
    for spec in found.specs:
        axes = re.findall(r"""'title': '([^']+)'""", str(spec))
        assert axes
        assert "labelExpr" in str(spec)


def test_setup_has_one_colour_in_every_chart(made: str) -> None:
    tones: dict[str, set[str]] = {}
    for spec in Page(made).specs:
        scale = spec["encoding"]["color"]["scale"]
        for name, tone in zip(scale["domain"], scale["range"], strict=True):
            tones.setdefault(name, set()).add(tone)
    assert all(len(found) == 1 for found in tones.values())
    assert {tone for found in tones.values() for tone in found} >= set(COLOURS.values())


def test_contents_link_to_every_section(made: str) -> None:
    found = Page(made)
    links = re.findall(r'<a href="#([^"]+)"', made)
    assert links == ["paced", "sync-threads", "sustained", "append", "machine"]
    assert set(links) <= set(found.ids)


def test_headline_compares_the_slowest_appends() -> None:
    figure, sentence = page.headline(full()) or ("", "")
    assert figure == "3.00 ms → 2.00 ms"
    assert "takes 2.00 ms with the pool. Without it: 3.00 ms, 1.5 times as much." in sentence


def test_headline_admits_a_pool_that_is_slower() -> None:
    slower = run_of(paced("mapped", 1_000_000), paced("pooled", 2_000_000))
    assert (page.headline(slower) or ("", ""))[1].endswith("1.00 ms, 0.5 times as much.")


def test_headline_without_a_constant_rate_compares_rates() -> None:
    cases = [result_of("append", "mapped", [2e6], form="single", value_size=40)]
    cases.append(result_of("append", "pooled", [4e6], form="single", value_size=40))
    assert (page.headline(run_of(*cases)) or ("", ""))[0] == "2.00 M/s → 4.00 M/s"


def test_run_without_the_pool_has_no_headline() -> None:
    assert page.headline(run_of(paced("mapped", 1_000_000))) is None


def test_quick_run_has_charts_and_no_verdict() -> None:
    results = full()
    judged = Page(page.page(results))
    results.options["quick"] = True
    found = Page(page.page(results))
    assert len(found.specs) == len(judged.specs)
    assert found.seen["figure"] == judged.seen["figure"]
    assert "QUICK" in found.text
    assert re.search(r"\b(Quiet|Noisy|Restless|Unknown)\b", judged.text)
    assert not re.search(r"\b(Quiet|Noisy|Restless|Unknown)\b", found.text)
    assert found.seen["table"] == 4


def test_page_fits_a_phone(made: str) -> None:
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in made
    tables = len(re.findall("<table>", made.partition("<script>")[0]))
    in_boxes = re.findall(r'<div class="wide" tabindex="0"[^>]*>\s*<table>', made)
    assert len(in_boxes) == tables == 4
    style = re.search(r"<style>(.*)</style>", made, re.DOTALL)
    assert style is not None
    assert re.search(r"\.wide \{[^}]*overflow-x: auto", style[1])
    assert re.search(r"\.chart \{[^}]*overflow-x: auto", style[1])


def test_workload_without_rates_draws_no_empty_chart() -> None:
    text = page.page(run_of(result_of("sustained", "mapped", [1e6]), paced("pooled", 1)))
    assert Page(text).seen["figure"] == 3


def test_run_without_any_sample_is_a_page(tmp_path: Path) -> None:
    assert Page(page.page(Results("now", machine.describe(tmp_path), {}))).open == []


def test_text_of_a_failure_cannot_become_markup() -> None:
    result = result_of("append", "mapped", [1.0])
    result.skipped, result.failed = "<b>broken</b>", True
    assert "<b>broken" not in page.page(run_of(result))
