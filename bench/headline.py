"""What a full run comes to: its goals as the table of README.md, and the headline as a picture:
latency by percentile at a constant rate, with the pool and without it.

Run as ``python -m bench.headline [RESULTS] [IMAGE] [PAGE]``; ``python -m bench`` does so after a
full run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from bench.goals import judge
from bench.marked import Marked
from commitlog.bench import chart
from commitlog.bench.report_page import percentile_curves
from commitlog.bench.results import json_text
from commitlog.bench.words import say_seconds
from commitlog.bench.workloads import titles

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "bench.json"
IMAGE = HERE.parent / "docs" / "images" / "constant-rate.svg"
PAGE = HERE.parent / "README.md"
PLACE = Marked("goals")
SETUPS = ("mapped-cold", "mapped", "pooled", "pacing-alone")
_HEAD, _LEGEND_LINE = 68, 20
# A picture that is loaded by a page does not know the page's colours, only what the reader prefers:
# it brings its own paper.
_STYLE = """
:root {
  --ink: #1c2330; --faint: #5b6678; --rule: #dfe3ea; --paper: #ffffff;
  --c0: #c43a5b; --c1: #d9661f; --c2: #1f9d6b; --c3: #98a2b3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e5e9f0; --faint: #a3adbd; --rule: #343b49; --paper: #161a22;
    --c0: #ff7d96; --c1: #f0a35e; --c2: #4cc38a; --c3: #7a8496;
  }
}
.paper { fill: var(--paper); } text { font-family: system-ui, sans-serif; fill: var(--ink); }
.title { font-size: 19px; font-weight: 600; }
.about, .tick { fill: var(--faint); font-size: 13px; } .name { font-size: 14px; }
.grid { stroke: var(--rule); }
.curve { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); stroke-dasharray: 3 3; }
.d0 { fill: var(--c0); } .d1 { fill: var(--c1); } .d2 { fill: var(--c2); } .d3 { fill: var(--c3); }
"""


def reduced(results: dict[str, Any]) -> dict[str, Any]:
    """Reduce a full run to what the table and the picture use: the goals, and the curves of the
    constant rate.
    """
    cases = [
        {
            "workload": case["workload"],
            "setup": case["setup"],
            "samples": [
                {"facts": {"rate": sample["facts"].get("rate")}} for sample in case["samples"][:1]
            ],
            "latency_ns": {name: case["latency_ns"][name] for name in ("p99.9", "curve")},
        }
        for case in results["cases"]
        if case["workload"] == "paced" and case["setup"] in SETUPS and case["latency_ns"]
    ]
    about = {name: results[name] for name in ("started", "seconds", "machine", "options")}
    return {
        **about,
        "goals": [dataclasses.asdict(verdict) for verdict in judge(results)],
        "cases": cases,
    }


def keep(source: Path, kept: Path = RESULTS) -> None:
    """Reduce the results of a full run, and write them where the repository keeps them."""
    results = json.loads(source.read_text(encoding="utf-8"))
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json_text(reduced(results)), encoding="utf-8")


def draw(results: dict[str, Any]) -> str | None:
    """The picture as SVG; None where the run did not measure it."""
    cases = {
        case["setup"]: case
        for case in results["cases"]
        if case["workload"] == "paced" and case["latency_ns"]
    }
    found = [setup for setup in SETUPS if setup in cases]
    if "pooled" not in found or len(found) == 1:
        return None
    tails = {setup: cases[setup]["latency_ns"]["p99.9"] / 1e9 for setup in found}
    lines, across, up = percentile_curves(
        {setup: cases[setup]["latency_ns"]["curve"] for setup in found}
    )
    # The same colour for the same setup, whichever of them a run had.
    numbers = [SETUPS.index(setup) for setup in found]
    legend = []
    for row, (number, setup) in enumerate(zip(numbers, found, strict=True)):
        y = _HEAD + _LEGEND_LINE * row
        legend.append(f'<rect class="d{number}" x="78" y="{y - 9}" width="22" height="4"/>')
        legend.append(
            f'<text class="name" x="110" y="{y}">{escape(titles()[setup])}: p99.9 '
            f"{say_seconds(tails[setup])}</text>"
        )
    top = _HEAD + _LEGEND_LINE * len(found)
    plotted = chart.plot(lines, across, up)
    for index, number in reversed(list(enumerate(numbers))):
        plotted = plotted.replace(f'class="curve c{index}"', f'class="curve c{number}"')
    dots = "".join(
        '<circle class="d{}" r="5" cx="{:.1f}" cy="{:.1f}"/>'.format(
            number, *chart.place(up, across, chart.nines(99.9), math.log10(tails[setup]))
        )
        for number, setup in zip(numbers, found, strict=True)
    )
    height = top + chart.HEIGHT
    rate = cases["pooled"]["samples"][0]["facts"]["rate"] / 1e6
    title = f"How long an append takes at {rate:.0f} MB/s"
    machine = results["machine"]
    about = (
        "1 KiB records, flush=&quot;async&quot;, from when each was due; "
        f"{machine['file_system']['type']}, {machine['kernel']}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.WIDTH} {height}" '
        f'width="{chart.WIDTH}" height="{height}" role="img">'
        f"<title>{title}, by percentile</title><style>{_STYLE}</style>"
        f'<rect class="paper" width="{chart.WIDTH}" height="{height}" rx="8"/>'
        f'<text class="title" x="20" y="26">{title}</text>'
        f'<text class="about" x="20" y="44">{about}</text>{"".join(legend)}'
        f'<g transform="translate(0 {top})">{plotted}{dots}</g></svg>\n'
    )


def table(results: dict[str, Any]) -> str:
    """Where it ran, and each goal that was measured, as Markdown, from reduced results."""
    machine, turns = results["machine"], results["options"]["turns"]
    day = results["started"].partition("T")[0]
    ground = (
        f"{machine['processor']}, {machine['usable_cores']} cores, "
        f"{machine['memory_bytes'] / (1 << 30):.0f} GiB; {machine['kernel']}, "
        f"{machine['file_system']['type']}; {day}; {turns} turns. A ratio is the median of those "
        "inside each turn, in which both sides were measured one after the other; beside it are "
        "the medians of both."
    )
    lines = [
        *textwrap.wrap(ground, 100, break_on_hyphens=False),
        "",
        "| what | measured | ratio | goal | met |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for goal in results["goals"]:
        if goal["met"] is not None:
            wanted = f"{'at least' if goal['least'] else 'at most'} {goal['limit']:.3g}"
            lines.append(
                f"| {goal['goal']} | {goal['figure']} | {goal['value']:.3g} | {wanted} | "
                f"{'yes' if goal['met'] else '**no**'} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    source, image, page = (
        Path(given)
        for given in (*arguments, *(str(RESULTS), str(IMAGE), str(PAGE))[len(arguments) :])
    )
    results = json.loads(source.read_text(encoding="utf-8"))
    drawn = draw(results)
    if drawn is None:
        print(
            f"{source} has no run at a constant rate with the pool and without it: no picture is "
            "drawn",
            file=sys.stderr,
        )
        return 1
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text(drawn, encoding="utf-8")
    PLACE.write(page, table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
