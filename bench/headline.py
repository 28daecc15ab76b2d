"""Write what a full run comes to.

The goals become the table of docs/performance.md. The constant rate becomes a picture: latency by
percentile with the pool and without it.

Run as ``python -m bench.headline [RESULTS] [IMAGE] [PAGE]``; ``python -m bench`` does so after a
full run.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import vl_convert
from humanize import metric

from bench.goals import judge
from bench.marked import Marked
from commitlog.tools.bench import charts
from commitlog.tools.bench.charts import Axis, Line
from commitlog.tools.bench.results import json_text
from commitlog.tools.bench.workloads import TITLES

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "bench.json"
IMAGE = HERE.parent / "docs" / "images" / "constant-rate.svg"
PAGE = HERE.parent / "docs" / "performance.md"
PLACE = Marked("goals")
SETUPS = ("mapped-cold", "mapped", "pooled", "pacing-alone")
# A picture in a page does not see the page's colours, only what its reader prefers.
_STYLE = """<style>
:root { --ink: #1b2330; --faint: #5c6779; --rule: #e3e7ee; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7ebf2; --faint: #a2adbd; --rule: #2b3341; --paper: #12161d; }
}
</style>"""


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
    """Return the picture as SVG; None if the run did not measure it."""
    cases = {
        case["setup"]: case
        for case in results["cases"]
        if case["workload"] == "paced" and case["latency_ns"]
    }
    found = [setup for setup in SETUPS if setup in cases]
    if "pooled" not in found or len(found) == 1:
        return None
    curves = [
        Line(
            setup,
            TITLES[setup],
            [(share, ns / 1e9) for share, ns in cases[setup]["latency_ns"]["curve"]],
        )
        for setup in found
    ]
    rate, machine = cases["pooled"]["samples"][0]["facts"]["rate"], results["machine"]
    place = f"{machine['file_system']['type']}, {machine['kernel']}"
    spec = charts.percentiles(curves, Axis("latency", "s", log=True))
    spec["encoding"]["color"]["legend"] = {
        "title": None,
        "orient": "top",
        "columnPadding": 24,
        "labelColor": "var(--ink)",
        "labelFontSize": 13,
        "labelLimit": 360,
        "offset": 14,
        "symbolStrokeWidth": 3,
        "symbolType": "stroke",
    }
    spec |= {
        "width": 760,
        "height": 320,
        "padding": 18,
        "config": charts.CONFIG | {"background": "var(--paper)"},
    }
    spec["layer"] = spec["layer"][:1]  # without what follows the pointer
    spec["title"] = {
        "text": f"How long an append takes at {metric(rate, 'B/s')}",
        "subtitle": f'1 KiB records, flush="async", from when each was due; {place}',
        "anchor": "start",
        "color": "var(--ink)",
        "subtitleColor": "var(--faint)",
        "fontSize": 18,
        "subtitleFontSize": 13,
        "subtitlePadding": 5,
        "offset": 14,
    }
    head, mark, body = vl_convert.vegalite_to_svg(spec).partition(">")
    return head + mark + _STYLE + body + "\n"


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
