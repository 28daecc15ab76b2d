"""Median and spread of turns, and the JSON."""

from __future__ import annotations

import json

import pytest

from commitlog.tools.bench.results import json_text
from tests.tools.bench.made import result_of, run_of


def test_median_and_spread_are_those_of_the_turns() -> None:
    result = result_of("append", "mapped", [10.0, 20.0, 40.0])
    assert result.median == pytest.approx(20.0)
    assert result.spread == pytest.approx(1.5)


def test_time_per_operation_is_the_figure_of_a_case_in_seconds() -> None:
    result = result_of("open", "mapped", [4.0])
    result.unit = "s"
    assert result.figures == [pytest.approx(0.25)]


def test_json_has_a_line_for_each_case() -> None:
    results = run_of(result_of("append", "mapped", [1.0]), result_of("append", "pooled", [1.0]))
    text = json_text(results.as_object())
    assert json.loads(text) == json.loads(json.dumps(results.as_object()))
    assert sum('"name": "append/' in line for line in text.splitlines()) == 2
    assert text.endswith("}\n")


@pytest.mark.parametrize("found", [{}, [], {"a": {}}, [[1, [2]], {"b": None}]])
def test_json_of_anything_reads_back(found: object) -> None:
    assert json.loads(json_text(found)) == found
