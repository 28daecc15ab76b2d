"""The results as one page of HTML that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
import vl_convert
from humanize import metric

from commitlog.tools.bench import charts, noise, table
from commitlog.tools.bench.charts import Axis, Bar, Line, Spec
from commitlog.tools.bench.results import CaseResult, Results
from commitlog.tools.bench.workloads import BY_NAME, TITLES

_LATENCY = Axis("latency", "s", log=True)
_RATE = Axis("bytes of values a second", "B/s")
_APPENDS = Axis("appends a second", "/s")
_LONGER = "Median of the turns; longer is better."
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_NOTABLE = 1.1  # turns of the same case differ by less


@dataclass(frozen=True)
class Chart:
    """A chart and how to read it; `legend` has a name and a colour for each setup."""

    title: str
    about: str
    spec: Spec
    legend: tuple[tuple[str, str], ...]


def page(results: Results) -> str:
    """Return the page. The figures of a quick run mean nothing: it has no headline and no
    verdict, and its note says so.
    """
    quick = bool(results.options.get("quick"))
    tables = table.tables(results)
    drawn = {made.workload: draw(results, made.workload) for made in tables}
    specs = [chart.spec for found in drawn.values() for chart in found]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("commitlog.tools.bench", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(
        results=results,
        headline=None if quick else headline(results),
        verdict=None if quick else noise.judge(results),
        machine=table.machine(results),
        notes=table.notes(results),
        tables=tables,
        charts=drawn,
        workloads=BY_NAME,
        text_headings=table.TEXT_HEADINGS,
        details=json.dumps({"machine": results.machine, "options": results.options}, indent=2),
        specs=specs,
        config=charts.CONFIG,
        library=vl_convert.javascript_bundle(_SNIPPET) if specs else "",
    )


def headline(results: Results) -> tuple[str, str] | None:
    """Return what the pool does to the slowest appends, else to the rate, as figure and sentence;
    None if no workload ran with the pool and without it.
    """
    for workload in ("paced", "sustained", "append", "sync-threads"):
        found = {one.case.setup: one for one in reversed(results.of(workload))}
        if not {"pooled", "mapped"} <= found.keys():
            continue
        pooled, mapped = found["pooled"], found["mapped"]
        rates = [pooled.median or 0.0, mapped.median or 0.0]
        if workload == "paced":
            tails = [one.histogram.at(99.9) / 1e9 for one in (pooled, mapped)]
            what = f"At {metric(rates[0], 'B/s')}, the slowest append in a thousand takes"
            return _compare(what, tails, "s")
        what = f"{BY_NAME[workload].title}, {table.variant(pooled)}: the rate is"
        return _compare(what, rates, pooled.unit)
    return None


def _compare(what: str, figures: Sequence[float], unit: str) -> tuple[str, str]:
    """Return two figures, and the sentence that compares them; the pool is not always ahead."""
    pooled, mapped = (metric(figure, unit) for figure in figures)
    ratio = figures[1] / figures[0] if figures[0] else 1.0
    times = f"{ratio:.2g} times" if ratio <= 1 / _NOTABLE or ratio >= _NOTABLE else "about"
    sentence = f"{what} {pooled} with the pool. Without it: {mapped}, {times} as much."
    return f"{mapped} → {pooled}", sentence


def draw(results: Results, workload: str) -> list[Chart]:
    """Return the charts of a workload, without those that have nothing to show."""
    found = results.of(workload)
    own = [result for result in found if not result.case.baseline]
    made: list[Chart | None] = []
    if workload == "paced":
        made = [_tails(found), _percentiles("Latency by percentile", found)]
    elif workload == "sync-threads":
        most = max((result.case.threads for result in own), default=1)
        busiest = [result for result in own if result.case.threads == most]
        made = [
            _bars("Rate by number of threads", found, _APPENDS),
            _percentiles(f"Latency by percentile, {table.threads(most)}", busiest),
        ]
    elif workload == "sustained":
        made = [_bars("Throughput", found, _RATE), _over_time(own)]
    elif workload == "append":
        groups = dict.fromkeys((result.case.value_size, result.case.flush) for result in own)
        for size, flush in groups:
            rows = [one for one in own if (one.case.value_size, one.case.flush) == (size, flush)]
            made.append(_bars(f'{size} B, flush="{flush}"', rows, _APPENDS))
    return [chart for chart in made if chart is not None]


def _bars(title: str, found: Sequence[CaseResult], axis: Axis) -> Chart | None:
    bars = []
    for result in found:
        case, row = result.case, result.case.form
        if case.workload == "sync-threads":
            row = table.threads(case.threads)
        bars.append(Bar(row, case.setup, TITLES[case.setup], result.median or 0.0, result.figures))
    return Chart(title, _LONGER, charts.bars(bars, axis), _legend(bars)) if bars else None


def _tails(found: Sequence[CaseResult]) -> Chart | None:
    bars = []
    for result in found:
        setup, turns = result.case.setup, [tail_ns / 1e9 for tail_ns in result.tails_ns]
        bars.append(Bar("", setup, TITLES[setup], result.histogram.at(99.9) / 1e9, turns))
    spec = charts.bars(bars, Axis("99.9th percentile of the latency", "s"))
    about = "The 99.9th percentile over all turns; shorter is better."
    return Chart("The slowest append in a thousand", about, spec, _legend(bars)) if bars else None


def _percentiles(title: str, found: Sequence[CaseResult]) -> Chart | None:
    curves = [
        Line(
            result.case.setup,
            TITLES[result.case.setup],
            [(share, ns / 1e9) for share, ns in result.histogram.curve()],
        )
        for result in found
        if result.histogram.count > 1
    ]
    about = "Lower is better. The further to the right, the rarer and slower the append."
    spec = charts.percentiles(curves, _LATENCY)
    return Chart(title, about, spec, _legend(curves)) if curves else None


def _over_time(found: Sequence[CaseResult]) -> Chart | None:
    curves = [
        Line(result.case.setup, TITLES[result.case.setup], result.samples[-1].rates)
        for result in found
        if result.samples and result.samples[-1].rates
    ]
    about = "The last turn of each setup. A curve ends when its appends do."
    spec = charts.over_time(curves, _RATE)
    return Chart("Throughput over time", about, spec, _legend(curves)) if curves else None


def _legend(shown: Sequence[Bar] | Sequence[Line]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((one.name, charts.tone(one.setup)) for one in shown))
