"""The table of the comparison: medians, their ratio to the peer's, and whether that is what was
asked for.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.marked import Marked
from bench.peers.rows import BY_NAME, PEER, Goal, Row
from bench.peers.turns import Result

PLACE = Marked("peers")
Turns = dict[str, list[Result]]  # by side
_PERCENTILES = ("p50", "p99", "p999")


def median_of(turns: list[Result], figure: str) -> float:
    """The median over the turns, of nanoseconds a message, or of a percentile."""
    if figure == "nanoseconds":
        return statistics.median(
            _number(turn["nanoseconds"]) / _number(turn["messages"]) for turn in turns
        )
    return statistics.median(_number(turn[figure]) for turn in turns)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def figures_of(row: Row) -> tuple[str, ...]:
    """What is compared in a row."""
    return _PERCENTILES if row.unit == "latency" else ("nanoseconds",)


def told(nanoseconds: float) -> str:
    """A duration for people."""
    if nanoseconds < 1000:
        return f"{nanoseconds:.1f} ns" if nanoseconds < 100 else f"{nanoseconds:.0f} ns"
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.2f} µs"
    return f"{nanoseconds / 1e6:.2f} ms"


def verdict(goal: Goal, turns: Turns) -> str:
    """Whether a goal was met in these turns."""
    if PEER not in turns or goal.side not in turns:
        return ""
    ratio = median_of(turns[goal.side], goal.figure) / median_of(turns[PEER], goal.figure)
    name = "" if goal.figure == "nanoseconds" else f"{goal.figure} "
    return f"{name}{ratio:.2f} of {goal.most:g}: {'met' if ratio <= goal.most else 'missed'}"


def lines_of(row: Row, turns: Turns) -> Iterator[tuple[str, ...]]:
    """Side, figure, median, range, ratio to the peer's."""
    for side, taken in turns.items():
        if row.unit == "sizes":
            yield from _sizes(side, taken)
            continue
        for figure in figures_of(row):
            middle = median_of(taken, figure)
            each = [median_of([turn], figure) for turn in taken]
            ratio = (
                ""
                if side == PEER or PEER not in turns
                else f"{middle / median_of(turns[PEER], figure):.2f}"
            )
            yield (
                side,
                "" if figure == "nanoseconds" else figure,
                told(middle),
                f"{told(min(each))} to {told(max(each))}",
                ratio,
            )


def _sizes(side: str, taken: list[Result]) -> Iterator[tuple[str, ...]]:
    by_size = [
        statistics.median(times)
        for times in zip(*(_floats(turn["by_size"]) for turn in taken), strict=True)
    ]
    slowest = max(range(len(by_size)), key=by_size.__getitem__)
    yield (
        side,
        "",
        told(statistics.median(by_size)),
        f"{told(min(by_size))} to {told(by_size[slowest])} at {slowest} B",
        "",
    )
    lines = [turn["split_lock_lines"] for turn in taken]
    yield (
        side,
        "split-lock lines",
        "not known" if None in lines else str(sum(map(_number, lines))),
        "",
        "",
    )


def _floats(value: object) -> list[float]:
    assert isinstance(value, list)
    return value


def reduced(taken: list[Result]) -> list[Result]:
    """Return the turns of a side as they are kept: of the sizes only the medians, in one turn."""
    if "by_size" not in taken[0]:
        return taken
    medians = [
        statistics.median(times)
        for times in zip(*(_floats(turn["by_size"]) for turn in taken), strict=True)
    ]
    lines = [turn["split_lock_lines"] for turn in taken]
    total = None if None in lines else sum(map(_number, lines))
    return [
        {"by_size": [round(nanoseconds, 2) for nanoseconds in medians], "split_lock_lines": total}
    ]


_HEADINGS = ("row", "place", "side", "figure", "median", "least to most", "ratio", "goal")


def _cells(rows: dict[str, Turns]) -> Iterator[tuple[str, ...]]:
    for name, turns in rows.items():
        row_name, _, place = name.partition("/")
        row = BY_NAME[row_name]
        goals: dict[str, list[str]] = {}
        for goal in row.goals:
            goals.setdefault(goal.side, []).append(verdict(goal, turns))
        for line in lines_of(row, turns):
            said = [
                one
                for one in goals.get(line[0], [])
                if not line[1] or one.startswith(f"{line[1]} ")
            ]
            yield row_name, place, *line, "; ".join(said)


def render(rows: dict[str, Turns]) -> str:
    """The whole table, by row and place, as text."""
    cells = [_HEADINGS, *_cells(rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def markdown(kept: dict[str, Any]) -> str:
    """What was kept, as Markdown: the machine, and the table."""
    some = next(iter(kept.values()))
    machine = some["machine"]
    lines = [
        (
            f"{machine['processor']}, {machine['usable_cores']} cores, {machine['kernel']}; "
            f"{some['measured'].partition('T')[0]}; medians of"
        ),
        (
            f"{some['turns']} turns. Ratios are those of the time that Mappedbus takes: below 1 is "
            "faster than it."
        ),
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {' | '.join(cells)} |"
        for cells in _cells({name: entry["sides"] for name, entry in kept.items()})
    ]
    return "\n".join(lines) + "\n"
