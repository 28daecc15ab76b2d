"""The table of docs/tuning.md, made from the kept results."""

from __future__ import annotations

import statistics
import textwrap
from typing import Any

from humanize import metric

from bench.marked import Marked
from bench.tuning.kill import Kill
from bench.tuning.knobs import MAPPED
from bench.tuning.run import Row

PLACE = Marked("tuning")
HEADINGS = (
    "appends of 40 B",
    "sustained, 1 KiB",
    "p50",
    "p99",
    "p99.9",
    "max",
    "a kill takes",
    "a power cut may take",
)
TITLES = {True: "mapped", False: "pooled"}


def render(results: dict[str, Any]) -> str:
    """Machine and table, as Markdown."""
    rows = [Row.of(entry) for entry in results["rows"]]
    rate = int(results["kill"]["rate"])
    machine, settings = results["machine"], results["settings"]
    where = (
        f"{machine['processor']}, {machine['usable_cores']} cores, "
        f"{machine['memory_bytes'] / (1 << 30):.0f} GiB"
    )
    kills = max(len(row.kills) for row in rows)
    preface = (
        f"{where}, {machine['kernel']}, {machine['file_system']['type']}; "
        f"{results['started'].partition('T')[0]}; medians of {settings['turns']} turns. Latencies "
        f"are those at {settings['rate'] / 1e6:.0f} MB/s of 1 KiB records, from when each append "
        'was due; under `flush="sync"`, those of appends one after the other. Losses are those '
        f"of the worst of {kills} kills of a process that appends {rate:,} records a second. A "
        "loss is stated as the time in which that process appended the lost records."
    )
    lines = textwrap.wrap(preface, 100, break_on_hyphens=False)
    for mapped, title in TITLES.items():
        chosen = [row for row in rows if (row.setup == MAPPED) is mapped]
        lines += [
            "",
            f"| {title} | {' | '.join(HEADINGS)} |",
            f"| --- |{' ---: |' * len(HEADINGS)}",
        ]
        lines += [f"| {_name(row)} | {' | '.join(_cells(row, rate))} |" for row in chosen]
    return "\n".join(lines) + "\n"


def _name(row: Row) -> str:
    name, _, threads = row.name.partition(", 16")
    shown = name if name.startswith("the ") else f"`{name}`"
    return f"{shown}, 16{threads}" if threads else shown


def _cells(row: Row, rate: int) -> list[str]:
    if row.skipped:
        return [f"not measured: {row.skipped}", *("",) * (len(HEADINGS) - 1)]
    tails = [
        metric((row.median_ns(name) or 0) / 1e9, "s") for name in ("p50", "p99", "p99.9", "max")
    ]
    sustained = (
        metric(statistics.median(row.sustained_bytes_s), "B/s") if row.sustained_bytes_s else ""
    )
    kills = (
        [_worst(row.kills, "lost", rate), _worst(row.kills, "not_flushed", rate)]
        if row.kills
        else ["", ""]
    )
    return [metric(statistics.median(row.appends_s), "/s"), sustained, *tails, *kills]


def _worst(kills: list[Kill], name: str, rate: int) -> str:
    """The most that one of them took, as the time in which it was appended."""
    taken = [getattr(kill, name) for kill in kills]
    if all(lost == kill.appended for lost, kill in zip(taken, kills, strict=True)):
        return "all"
    return metric(max(taken) / rate, "s") if max(taken) else "nothing"
