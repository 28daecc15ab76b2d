"""Charts as inline SVG: lines over logarithmic or plain axes. Nothing is loaded, nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
WIDTH, HEIGHT = 860, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 40, 14, 42
_COLOURS = 8  # classes c0 to c7 of the page's style


@dataclass(frozen=True)
class Line:
    """A named curve."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """From where to where, with which marks.

    Attributes
    ----------
    low, high : float
        The ends, in the axis's own scale.
    ticks : sequence of (float, str)
        Where the marks are, and what they say.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def decades(values: Sequence[float], say: Callable[[float], str]) -> Axis:
    """An axis over whole powers of ten; values on it are given as their logarithm."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    return Axis(low, high, [(power, say(10.0**power)) for power in range(low, high + 1)])


def linear(high: float, say: Callable[[float], str]) -> Axis:
    """An axis from 0, with four to ten round marks."""
    high = high or 1.0
    step = 10.0 ** math.floor(math.log10(high))
    step = next(part for part in (step / 5, step / 2, step, 2 * step) if high / part <= 8)
    marks = math.ceil(high / step)
    return Axis(
        0.0, marks * step, [(index * step, say(index * step)) for index in range(marks + 1)]
    )


def percentiles(highest: float) -> Axis:
    """An axis of nines: 90, 99, 99.9, ... are equally far from each other."""
    last = max(2, math.ceil(nines(highest)))
    ticks = [(0.0, "0 %"), (nines(50.0), "50 %")]
    ticks += [
        (float(power), f"{100 - 100 / 10**power:.{max(0, power - 2)}f} %")
        for power in range(1, last + 1)
    ]
    return Axis(0.0, float(last), ticks)


def nines(percentile: float) -> float:
    """How many nines: 90 is 1, 99 is 2."""
    return -math.log10(max(1e-9, 1 - percentile / 100))


def draw(lines: Sequence[Line], across: Axis, up: Axis, caption: str) -> str:
    """The chart, with the names of its curves below.

    Parameters
    ----------
    lines : sequence of Line
        Points in the scales of the axes.
    caption : str
        What it shows, for those who do not see it.
    """
    plotted = plot(lines, across, up)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(caption)}">{plotted}</svg>{legend(lines)}'
    )


def plot(lines: Sequence[Line], across: Axis, up: Axis) -> str:
    """What is inside: grid, marks and curves."""
    parts = []
    for value, text in up.ticks:
        y = place(up, across, 0, value)[1]
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" '
            f'text-anchor="end">{escape(text)}</text>'
        )
    for value, text in across.ticks:
        x = place(up, across, value, 0)[0]
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        )
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{escape(text)}</text>'
        )
    for index, line in enumerate(lines):
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(up, across, *point)) for point in line.points
        )
        parts.append(
            f'<polyline class="curve c{index % _COLOURS}" '
            f'points="{points}"><title>{escape(line.name)}</title></polyline>'
        )
    return "".join(parts)


def place(up: Axis, across: Axis, across_value: float, up_value: float) -> Point:
    """Where a point is drawn."""
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    return _LEFT + across.share(across_value) * inner_width, _TOP + (
        1 - up.share(up_value)
    ) * inner_height


def legend(lines: Sequence[Line]) -> str:
    """The names beside their colours."""
    names = (
        f'<li><i class="c{index % _COLOURS}"></i>{escape(line.name)}</li>'
        for index, line in enumerate(lines)
    )
    return f'<ul class="legend">{"".join(names)}</ul>'
