"""The results on a terminal: by rich where it is there, else in plain columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from commitlog.bench.histogram import PERCENTILES
from commitlog.bench.results import CaseResult, Results
from commitlog.bench.words import say, say_seconds
from commitlog.bench.workloads import BY_NAME, titles

HEADINGS = (
    "what",
    "flush",
    "setup",
    "median",
    "spread",
    "of baseline",
    *PERCENTILES,
    "max",
    "cpu",
    "rss",
)
_STOLEN_SHARE = 1 / 1000  # what a p99.9 does not see
_MIB = 1 << 20


@dataclass(frozen=True)
class Table:
    """A title, headings and rows, all of them text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(results: Results) -> list[Table]:
    """One table a workload."""
    made = []
    for name in dict.fromkeys(result.case.workload for result in results.cases.values()):
        cases = [
            result
            for result in results.cases.values()
            if result.case.workload == name and result.samples
        ]
        if cases:
            workload = BY_NAME[name]
            about = f"; latencies: {workload.latencies}" if workload.latencies else ""
            made.append(
                Table(
                    f"{workload.title} ({name}{about})",
                    HEADINGS,
                    tuple(_row(results, result) for result in cases),
                )
            )
    return made


def _row(results: Results, result: CaseResult) -> tuple[str, ...]:
    case = result.case
    threads = f"{case.threads} threads" if case.threads > 1 else ""
    what = " ".join(
        part
        for part in (case.form, f"{case.value_size} B" if case.value_size else "", threads)
        if part
    )
    median = result.median
    latencies = ("",) * (len(PERCENTILES) + 1)
    if result.histogram.count:
        at = [result.histogram.at(percentile) for percentile in PERCENTILES.values()]
        latencies = tuple(
            say_seconds(nanoseconds / 1e9) for nanoseconds in (*at, result.histogram.largest_ns)
        )
    return (
        what,
        case.flush or "",
        titles()[case.setup],
        "" if median is None else say(median, result.unit),
        f"±{50 * result.spread:.0f} %" if len(result.samples) > 1 else "",
        _of_baseline(results, result),
        *latencies,
        "" if result.cpu_share is None else f"{100 * result.cpu_share:.0f} %",
        f"{result.rss_bytes / _MIB:.0f} MiB",
    )


def _of_baseline(results: Results, result: CaseResult) -> str:
    """The figure as a multiple of the same workload's baseline; the pacing loop alone is no measure
    of a rate.
    """
    case, median = result.case, result.median
    if case.baseline or case.workload == "paced" or not median:
        return ""
    beside = [
        other
        for other in results.cases.values()
        if other.case.baseline
        and (other.case.workload, other.case.value_size) == (case.workload, case.value_size)
        and other.median
    ]
    return f"{median / (beside[0].median or 1):.2f}x" if beside else ""


def notes(results: Results) -> list[str]:
    """What else must be said: where it ran, what is missing and why."""
    machine = results.machine
    system = machine["file_system"]
    assert isinstance(system, dict)
    where = (
        f"{machine['processor']}, {machine['usable_cores']} cores; {machine['kernel']}; "
        f"{system['type']} on {system['device']}"
    )
    said = [
        f"{where}; {machine['python']}; commitlog {machine['commitlog']}; {results.seconds:.0f} s"
    ]
    if results.options.get("quick"):
        said.append(
            "QUICK: it shows that everything works; sizes are too small for the figures to mean "
            "much"
        )
    if results.interrupted:
        said.append("INTERRUPTED: what is above had been measured until then")
    said += [note for result in results.cases.values() if (note := _stolen(result))]
    skipped = (result for result in results.cases.values() if result.skipped)
    return said + [
        f"{'FAILED' if result.failed else 'skipped'}: {result.case.name}: {result.skipped}"
        for result in skipped
    ]


def _stolen(result: CaseResult) -> str:
    """That a case's thread had no processor for longer than its p99.9 leaves out; empty where that
    is not known, or not so.
    """
    delays = [
        (delay, sample.wall_s)
        for sample in result.samples
        if isinstance(delay := sample.facts.get("run_delay_s"), float)
    ]
    delay_s, wall_s = max(delays, default=(0.0, 0.0))
    if delay_s <= wall_s * _STOLEN_SHARE:
        return ""
    return (
        f"STOLEN: {result.case.name}: others had the processor for {say_seconds(delay_s)} of "
        f"{say_seconds(wall_s)}, which its tail shows"
    )


def render(results: Results, width: int | None = None, colour: bool = False) -> str:
    """Everything as text.

    Parameters
    ----------
    width : int, optional
        Columns of the terminal; None: as wide as it needs.
    colour : bool
        Whether there may be escape sequences in it.
    """
    made = tables(results)
    try:
        text = _render_richly(made, width, colour)
    except ImportError:
        text = "\n".join(_render_plainly(table) for table in made)
    return "\n".join([text, *notes(results)]).strip() + "\n"


def _render_richly(made: Sequence[Table], width: int | None, colour: bool) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    wide = (
        max(
            (len(line) for table in made for line in _render_plainly(table).splitlines()),
            default=80,
        )
        + 40
    )
    console = Console(
        file=io.StringIO(),
        width=max(width or wide, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    for table in made:
        shown = RichTable(
            title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for index, heading in enumerate(table.headings):
            shown.add_column(heading, justify="left" if index < 3 else "right", overflow="fold")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _render_plainly(table: Table) -> str:
    lines = [table.headings, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headings))]
    shown = [table.title]
    for line in lines:
        padded = zip(line, widths, strict=True)
        cells = (
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(padded)
        )
        shown.append("  ".join(cells).rstrip())
    return "\n".join([*shown, ""])
