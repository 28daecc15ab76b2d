"""`commitlog history`: how long messages waited and were handled on their way."""

from __future__ import annotations

import math
from typing import Any

import click

from commitlog.base.histogram import Histogram
from commitlog.errors.printable import printable
from commitlog.tools.cli import FAILURE, parameters
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.quantities import counted, latency_text
from commitlog.tools.cli.reading import Range, range_options, report_damage
from commitlog.topics.history_report import Durations, HistoryReport, Stage, reported
from commitlog.topics.topics_state import catalog_of

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
_HEADINGS = ("stage", "step", "count", "negative", "50%", "90%", "99%", "99.9%", "max")
_WIDTH, _CHART_WIDTH = 200, 40


@click.command()
@click.argument("log", type=click.Path())
@range_options
@click.option(
    "--topic",
    "--method",
    "topics",
    type=parameters.tailer_name,
    multiple=True,
    metavar="NAME",
    help="Read only messages of this topic, or calls of this method; repeat it for several.",
)
@click.option(
    "--chart", is_flag=True, help="Draw percentiles 50 to 99.9 of each row, on a logarithmic scale."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    log: str,
    topics: tuple[str, ...],
    chart: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Print how long messages waited and how long handling took.

    A message that is written while another is handled carries a history: the logs through which it
    came. Each of these logs is a hop; the first is hop 1. A source is a log, named by its UUID.

    Each hop and each source has two rows. "waited" is the time from the write of a message to its
    read. "handled" is the time from that read to the write of the next message. The row "way" is
    the time from the first write to the last.

    Hops above 32 share a row, and so do sources after the first 64. Percentiles have an error of at
    most 1 %. They leave out negative durations, which occur if the clocks of machines differ; a
    column counts them.

    \b
    Examples:
      commitlog history --chart events
      commitlog history --since 1h --method packed events
      commitlog history --json events | jq '.stages[] | select(.kind == "way").p99_ns'

    The exit status is 1 if a history cannot be read, or at damage.
    """
    if chart and as_json:
        raise click.UsageError("--chart and --json exclude each other: use one of them")
    chosen = Range(**given)
    with chosen.opened(log) as opened:
        catalog_of(opened).check_topics(topics)
        with opened.tailer(visibility=chosen.visibility, on_damage=chosen.on_damage) as tailer:
            end = chosen.find_end(tailer)
            chosen.seek_first(tailer)
            report = reported(opened, tailer, end, topics)
            damaged = report_damage(tailer)
    if as_json:
        print_json(_as_object(log, report))
    else:
        _print(log, report, chart=chart)
    for problem, found in report.problems.items():
        echo(
            f"commitlog: {log}: {counted(found.messages, 'message')}, the first one at position "
            f"{found.first_position}: {problem}",
            err=True,
        )
    context.exit(FAILURE if report.problems or damaged else 0)


def _as_object(log: str, report: HistoryReport) -> dict[str, Any]:
    names = ("records", "messages", "histories", "shortened", "most_hops")
    counts = {name: getattr(report, name) for name in names}
    problems = [
        {"problem": text, "messages": each.messages, "first_position": each.first_position}
        for text, each in report.problems.items()
    ]
    stages = [_stage(stage, durations) for stage, durations in report.rows()]
    return {"path": log, **counts, "stages": stages, "problems": problems}


def _stage(stage: Stage, durations: Durations) -> dict[str, Any]:
    histogram = durations.histogram
    figures = {f"{name}_ns": histogram.at(share) for name, share in PERCENTILES.items()}
    figures["max_ns"] = histogram.largest_ns
    return {
        "kind": stage.kind,
        "step": stage.step,
        "hop": stage.hop,
        "source": None if stage.source is None else str(stage.source),
        "count": durations.count,
        "negative": durations.negative,
        "least_ns": durations.least_ns if durations.negative else None,
        **(figures if histogram.count else dict.fromkeys(figures)),
    }


def _print(log: str, report: HistoryReport, *, chart: bool) -> None:
    left_out = f", {report.shortened:,} of them shortened" if report.shortened else ""
    echo(
        f"{log}: {counted(report.records, 'record')}, {counted(report.messages, 'message')}, "
        f"{report.histories:,} with a history{left_out}"
    )
    if report.histories:
        _print_table(report, chart=chart)
    elif not report.problems:
        echo(
            "No message has a history. A message gets one if it is written while another is "
            "handled, by a method reader or in `with tailer.reading()`."
        )


def _print_table(report: HistoryReport, *, chart: bool) -> None:
    from rich import box
    from rich.bar import Bar
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = report.rows()
    scale = _Scale([each.histogram for _, each in rows])
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _HEADINGS:
        is_text = heading in _HEADINGS[:2]
        shown.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    if chart:
        shown.add_column("50% to 99.9%", width=_CHART_WIDTH)
    for stage, durations in rows:
        histogram = durations.histogram
        figures = [histogram.at(share) for share in PERCENTILES.values()]
        bars = [Bar(*scale.bar(figures[0], figures[-1]))] if chart and histogram.count else []
        times = [latency_text(ns / 1e9) for ns in (*figures, histogram.largest_ns)]
        cells = (
            _title(stage),
            stage.step,
            f"{durations.count:,}",
            f"{durations.negative:,}",
            *(times if histogram.count else [""] * len(times)),
        )
        shown.add_row(*map(Text, map(printable, cells)), *bars)
    console = Console(width=_WIDTH, color_system=None)
    with console.capture() as taken:
        console.print(shown)
    for line in taken.get().splitlines():
        echo(line.rstrip())


class _Scale:
    """A logarithmic scale for the bars of some histograms, from the least of their medians on."""

    def __init__(self, histograms: list[Histogram]) -> None:
        medians = [each.at(50.0) for each in histograms if each.count]
        self._first = math.log(min(medians, default=1)) - math.log(2)
        largest_ns = max(each.largest_ns for each in histograms)
        self._size = math.log(max(largest_ns, 1)) - self._first + math.log(2)

    def bar(self, first_ns: int, last_ns: int) -> tuple[float, float, float]:
        """Return the size of the scale, and where a bar begins and ends, at least one column."""
        column = self._size / _CHART_WIDTH
        begin = math.log(first_ns) - self._first
        return self._size, begin, max(begin + column, math.log(last_ns) - self._first)


def _title(stage: Stage) -> str:
    if stage.kind == "hop":
        return f"hop {stage.hop}" if stage.hop is not None else "later hops"
    if stage.kind == "source":
        return f"source {stage.source}" if stage.source is not None else "other sources"
    return stage.kind
