"""The results as text."""

from __future__ import annotations

from commitlog.tools.bench import table
from tests.tools.bench.made import paced, result_of, run_of


def test_columns_without_any_figure_are_left_out() -> None:
    (made,) = table.tables(run_of(result_of("append", "mapped", [1e6], value_size=40)))
    assert "p99.9" not in made.headings
    assert "of baseline" not in made.headings
    assert len(made.rows[0]) == len(made.headings)


def test_figure_is_compared_with_the_baseline() -> None:
    cases = [result_of("sustained", "plain-write", [4e6]), result_of("sustained", "pooled", [3e6])]
    (made,) = table.tables(run_of(*cases))
    assert made.rows[1][made.headings.index("of baseline")] == "0.75x"


def test_text_has_the_verdict_and_no_escape_sequences() -> None:
    text = table.render(run_of(paced("pooled", 1_000_000), paced("pacing-alone", 1_000)))
    assert "Constant rate (paced; latencies: an append, from when it was due)" in text
    assert "The machine was quiet" in text
    assert "\x1b" not in text


def test_quick_text_has_no_verdict() -> None:
    text = table.render(run_of(paced("pooled", 1_000_000), quick=True))
    assert "QUICK" in text
    assert "The machine was" not in text
