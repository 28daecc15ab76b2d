"""The table of the comparison: medians of turns and their ratio, first the rows that are lost."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator
from typing import Any

from bench.marked import Marked
from bench.peers.rows import MORE_IS_BETTER, ROWS, Row
from bench.peers.turns import Figures

PLACE = Marked("peers")
# What is kept: of each pair, by figure, ours, the peer's and the ratio; and what did not run.
Kept = dict[str, Any]
BUSY = 0.3  # processors that other work took
_NAMES = {"ns": "a record", "p999": "p99.9", "per_s": "rate", "mb_s": "rate"}
_HEADINGS = ("row", "commitlog", "peer", "figure", "commitlog's", "peer's", "ratio")


def compared(row: Row, ours: list[Figures], peer: list[Figures]) -> dict[str, list[float]]:
    """Return ours, the peer's and the ratio of each figure, from turns of both sides.

    The ratio is the median of those within a turn. Rolls count over all turns together.
    """
    if row.rolls:
        ours, peer = [_merged(ours)], [_merged(peer)]
    found = {}
    for figure in row.figures:
        mine, theirs = ([turn[figure] for turn in turns] for turns in (ours, peer))
        pairs = zip(mine, theirs, strict=False)
        if figure in MORE_IS_BETTER:
            ratios = [first / second for first, second in pairs]
        else:
            ratios = [second / first for first, second in pairs]
        figures = map(statistics.median, (mine, theirs, ratios))
        found[figure] = [float(f"{value:.4g}") for value in figures]
    return found


def _merged(turns: list[Figures]) -> Figures:
    """Return the percentiles of the rolls of all turns."""
    rolls = sorted(one for turn in turns for one in turn["rolls"])
    last = len(rolls) - 1
    parts = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {name: rolls[int(last * part)] for name, part in parts.items()}


def shown(figure: str, value: float) -> str:
    """Return a figure with its unit."""
    if figure == "mb_s":
        return f"{value:,.0f} MB/s"
    if figure == "per_s":
        return f"{value / 1e3:.3g} k/s" if value >= 1000 else f"{value:.0f} /s"
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (0, "ns"))
    factor, unit = next((factor or 1, unit) for factor, unit in units if value >= factor)
    return f"{value / factor:.3g} {unit}"


def side_name(side: str) -> str:
    """Return a side as the table names it."""
    program, *settings = side.split()
    if program in ("ours", "capi"):
        words = [setting.removeprefix("setup=").removeprefix("form=") for setting in settings]
        return " ".join("C API" if word == "capi" else word for word in words)
    return " ".join([program.replace("alone", "the loop alone"), *settings])


def lines(kept: Kept) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Return ratio and cells of each figure, in the order of the rows."""
    for row in ROWS:
        for ours, peer in row.pairs:
            entry = kept["pairs"].get(f"{row.name} | {ours} | {peer}")
            for figure, (mine, theirs, ratio) in entry["figures"].items() if entry else ():
                values = shown(figure, mine), shown(figure, theirs), f"{ratio:.2f}"
                sides = side_name(ours), side_name(peer)
                yield ratio, (row.name, *sides, _NAMES.get(figure, figure), *values)


def markdown(kept: Kept) -> str:
    """Return what was kept as Markdown: what ran, the lost rows, the others, what did not run."""
    found = list(lines(kept))
    lost = [cells for ratio, cells in found if ratio < 1]
    ahead = [cells for ratio, cells in found if ratio >= 1]
    parts = ["\n".join(_about(kept))]
    parts += [_table(f"Behind: {len(lost)} of {len(found)} figures.", lost)] if lost else []
    parts += [_table(f"Level or ahead: {len(ahead)} of {len(found)}.", ahead)] if ahead else []
    parts += [f"- `{name}` did not run: {why}" for name, why in sorted(kept["missing"].items())]
    return "\n\n".join(parts) + "\n"


def _about(kept: Kept) -> Iterator[str]:
    machine, entries = kept["machine"], kept["pairs"].values()
    yield (
        f"{machine['processor']}, {machine['usable_cores']} cores, {machine['kernel']}, "
        f"{machine['file_system']['type']}."
    )
    days = sorted({entry["measured"] for entry in entries})
    turns = sorted({entry["turns"] for entry in entries})
    yield f"Measured {' and '.join(days)}; medians of {' or '.join(map(str, turns))} turns."
    busy = {
        name.split(" | ")[0]: entry["others"]
        for name, entry in kept["pairs"].items()
        if entry["others"] > BUSY
    }
    if busy:
        yield textwrap.fill(
            f"Other work took up to {max(busy.values())} processors in these rows: "
            f"{', '.join(busy)}.",
            width=100,
            break_on_hyphens=False,
        )


def _table(title: str, rows: list[tuple[str, ...]]) -> str:
    head = [f"| {' | '.join(_HEADINGS)} |", "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    return "\n".join([title, "", *head, *(f"| {' | '.join(cells)} |" for cells in rows)])
