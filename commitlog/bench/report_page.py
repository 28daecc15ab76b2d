"""The results as one page of HTML that needs nothing else: no network, no script."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from html import escape

from commitlog.bench import chart
from commitlog.bench.chart import Line
from commitlog.bench.report_table import Table, notes, tables
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.words import say_bytes, say_seconds
from commitlog.bench.workloads import BY_NAME, titles

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1c2330; --faint: #667084; --rule: #d9dee7; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e9f0; --faint: #98a2b3; --rule: #343b49; --paper: #161a22; }
}
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1.2rem 0 .2rem; font-weight: 600; }
p, li { color: var(--faint); } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule);
  text-align: right; white-space: nowrap; }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
th { color: var(--faint); font-weight: 600; }
svg { width: 100%; height: auto; display: block; } .grid { stroke: var(--rule); stroke-width: 1; }
.tick { fill: var(--faint); font-size: 12px; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { list-style: none; padding: 0; margin: .2rem 0 0;
  display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: 13px; }
.legend i { display: inline-block; width: 1rem; height: 3px; margin-right: .4rem;
  vertical-align: middle; }
details { margin-top: 2rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
"""
_COLOURS = ("#2f6fde", "#d9661f", "#1f9d6b", "#a24bd1", "#c43a5b", "#8a7a1a", "#1b95b5", "#7a7f8c")
_MOST_LINES = 8


def page(results: Results) -> str:
    """The whole page."""
    colours = "".join(
        f".curve.c{index} {{ stroke: {tone}; }} i.c{index} {{ background: {tone}; }}\n"
        for index, tone in enumerate(_COLOURS)
    )
    options = json.dumps(
        {"started": results.started, "machine": results.machine, "options": results.options},
        indent=2,
    )
    said = "".join(f"<p>{escape(note)}</p>" for note in notes(results))
    body = [
        f"<h1>commitlog on this disk</h1><p>{escape(results.started)}</p>{said}",
        *_charts(results),
        *map(_table, tables(results)),
        f"<details><summary>Machine and options</summary><pre>{escape(options)}</pre></details>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>commitlog bench</title>\n<style>{_STYLE}{colours}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"<h2>{escape(table.title)}</h2><div "
        f'class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


# --- charts ---------------------------------------------------------------------------------------


def _charts(results: Results) -> list[str]:
    """Percentiles and the course of the runs, for the workloads that have them."""
    drawn = []
    for name, title, choose in (
        ("paced", "Constant rate", lambda result: True),
        (
            "sync-threads",
            "Sync appends",
            lambda result: result.case.setup in ("mapped", "pooled", "page-msync"),
        ),
    ):
        found = _of(results, name, choose)
        if found:
            drawn.append(_section(title, BY_NAME[name].latencies, _percentiles(found)))
    paced = [
        result
        for result in _of(results, "paced", lambda result: not result.case.baseline)
        if result.samples[-1].series
    ]
    if paced:
        drawn.append(
            _section(
                "Constant rate",
                "the largest latency in each tenth of a second, in the last turn",
                _worst_over_time(paced),
            )
        )
    for name, title in (("paced", "Constant rate"), ("sustained", "Sustained")):
        found = _of(results, name, lambda result: not result.case.baseline)
        if found:
            drawn.append(
                _section(
                    title, "bytes of values a second, in the last turn", _rate_over_time(found)
                )
            )
    return drawn


def _of(results: Results, workload: str, choose: Callable[[CaseResult], bool]) -> list[CaseResult]:
    there = (
        result
        for result in results.cases.values()
        if result.case.workload == workload and result.samples
    )
    return list(filter(choose, there))[:_MOST_LINES]


def _section(title: str, about: str, drawing: str) -> str:
    return f"<h2>{escape(title)}</h2><h3>{escape(about)}</h3>{drawing}"


def _name(result: CaseResult) -> str:
    threads = f", {result.case.threads} threads" if result.case.threads > 1 else ""
    return titles()[result.case.setup] + threads


def _percentiles(found: list[CaseResult]) -> str:
    lines, across, up = percentile_curves(
        {_name(result): result.histogram.curve() for result in found}
    )
    return chart.draw(lines, across, up, "latency by percentile")


def percentile_curves(
    curves: Mapping[str, Iterable[tuple[float, int]]],
) -> tuple[list[Line], chart.Axis, chart.Axis]:
    """Curves of percentiles and nanoseconds, by name, as lines: nines across, seconds up, by their
    logarithms.
    """
    points = {
        name: [(percentile, max(1, nanoseconds) / 1e9) for percentile, nanoseconds in curve]
        for name, curve in curves.items()
    }
    every = [point for curve in points.values() for point in curve]
    across = chart.percentiles(
        max((percentile for percentile, _ in every if percentile < 100), default=99.0)
    )
    up = chart.decades([seconds for _, seconds in every], say_seconds)
    lines = [
        Line(
            name,
            [
                (min(chart.nines(percentile), across.high), math.log10(seconds))
                for percentile, seconds in curve
            ],
        )
        for name, curve in points.items()
    ]
    return lines, across, up


def _worst_over_time(found: list[CaseResult]) -> str:
    values = [worst / 1e9 for result in found for _, _, worst in result.samples[-1].series if worst]
    lines = [
        Line(
            _name(result),
            [(at, math.log10(max(1.0, worst) / 1e9)) for at, _, worst in result.samples[-1].series],
        )
        for result in found
    ]
    return chart.draw(
        lines, _seconds(found), chart.decades(values, say_seconds), "largest latency over time"
    )


def _rate_over_time(found: list[CaseResult]) -> str:
    highest = max(
        (rate for result in found for _, rate, _ in result.samples[-1].series), default=1.0
    )
    lines = [
        Line(_name(result), [(at, rate) for at, rate, _ in result.samples[-1].series])
        for result in found
    ]
    return chart.draw(
        lines, _seconds(found), chart.linear(highest, say_bytes), "throughput over time"
    )


def _seconds(found: list[CaseResult]) -> chart.Axis:
    longest = max((at for result in found for at, _, _ in result.samples[-1].series), default=1.0)
    return chart.linear(longest, lambda seconds: f"{seconds:.3g} s")
