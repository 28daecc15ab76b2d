"""The results as tables, and as text on a terminal."""

from __future__ import annotations

import io
from dataclasses import dataclass

from humanize import metric
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from commitlog.base.histogram import PERCENTILES
from commitlog.base.units import MIB
from commitlog.tools.bench import noise
from commitlog.tools.bench.results import CaseResult, Results
from commitlog.tools.bench.workloads import BY_NAME, TITLES

HEADINGS = (
    "what",
    "flush",
    "setup",
    "median",
    "turns",
    "of baseline",
    *PERCENTILES,
    "max",
    "cpu",
    "memory",
)
TEXT_HEADINGS = HEADINGS[:3]
_WIDTH = 200


@dataclass(frozen=True)
class Table:
    workload: str
    headings: tuple[str, ...]  # those of `HEADINGS` that have a figure
    rows: list[tuple[str, ...]]


def tables(results: Results) -> list[Table]:
    """Return a table for each workload that has samples."""
    made = []
    for name in dict.fromkeys(result.case.workload for result in results.cases.values()):
        if rows := [_row(results, result) for result in results.of(name)]:
            columns = [column for column in zip(HEADINGS, *rows, strict=True) if any(column[1:])]
            headings, *rows = zip(*columns, strict=True)
            made.append(Table(name, headings, rows))
    return made


def threads(number: int) -> str:
    return f"{number} thread{'s' * (number > 1)}"


def variant(result: CaseResult) -> str:
    """Return what distinguishes a case from others of its workload and setup."""
    case = result.case
    size = f"{case.value_size} B" if case.value_size else ""
    appenders = threads(case.threads) if case.workload.startswith("sync") and case.flush else ""
    return " ".join(filter(None, (case.form, size, appenders)))


def _row(results: Results, result: CaseResult) -> tuple[str, ...]:
    median, histogram = result.median, result.histogram
    latencies = [histogram.at(percentile) for percentile in PERCENTILES.values()]
    latencies.append(histogram.largest_ns)
    return (
        variant(result),
        result.case.flush or "",
        TITLES[result.case.setup],
        "" if median is None else metric(median, result.unit),
        f"±{50 * result.spread:.0f} %" if len(result.samples) > 1 else "",
        _of_baseline(results, result),
        *(metric(ns / 1e9, "s") if histogram.count else "" for ns in latencies),
        "" if result.cpu_share is None else f"{100 * result.cpu_share:.0f} %",
        f"{result.rss_bytes / MIB:.0f} MiB",
    )


def _of_baseline(results: Results, result: CaseResult) -> str:
    """Return the figure as a multiple of the baseline; the pacing loop alone measures no rate."""
    case, median = result.case, result.median
    if case.baseline or case.workload == "paced" or not median:
        return ""
    beside = [other.median for other in results.of(case.workload) if other.case.baseline]
    return f"{median / beside[0]:.2f}x" if beside and beside[0] else ""


def machine(results: Results) -> str:
    found, system = results.machine, results.machine["file_system"]
    assert isinstance(system, dict)
    place = (
        f"{found['usable_cores']} cores; {found['kernel']}; {system['type']} on {system['device']}"
    )
    made = f"{found['python']}; commitlog {found['commitlog']}"
    return f"{found['processor']}, {place}; {made}; {results.seconds:.0f} s"


def notes(results: Results) -> list[str]:
    """Return notes on the run: what is missing, and why."""
    found = []
    if results.options.get("quick"):
        found.append("QUICK: the run shows that everything works; its sizes are too small to judge")
    if results.interrupted:
        found.append("INTERRUPTED: the figures are those of the turns so far")
    skipped = [result for result in results.cases.values() if result.skipped]
    return found + [
        f"{'FAILED' if result.failed else 'skipped'}: {result.case.name}: {result.skipped}"
        for result in skipped
    ]


def render(results: Results, width: int | None = None, colour: bool = False) -> str:
    """Return everything as text, as wide as the terminal or as the tables need."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=max(width or _WIDTH, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    for table in tables(results):
        workload = BY_NAME[table.workload]
        latencies = f"; latencies: {workload.latencies}" if workload.latencies else ""
        title = f"{workload.title} ({workload.name}{latencies})"
        shown = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in table.headings:
            is_text = heading in TEXT_HEADINGS
            shown.add_column(heading, justify="left" if is_text else "right", overflow="fold")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
    verdict = noise.judge(results)
    lines = [machine(results), *notes(results)]
    if not results.options.get("quick"):
        lines += [verdict.sentence, *verdict.signs]
    return "\n".join(line.rstrip() for line in [*text.getvalue().splitlines(), *lines]) + "\n"
