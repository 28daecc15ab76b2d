"""Charts as Vega-Lite specifications, one colour for one setup in all of them.

Colours of text and rules are CSS variables of the page, so that one drawing serves light, dark
and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from humanize import metric

Spec = dict[str, Any]
# Okabe and Ito's palette, safe for colour-blind readers: warm without a pool, blue with one.
COLOURS = {
    "mapped-cold": "#D55E00",
    "mapped": "#E69F00",
    "pooled": "#0072B2",
    "pooled-shm": "#56B4E9",
}
_ROOM_FOR_TEXT = 1.2
BASELINE_COLOUR = "#8C8C8C"
CONFIG: Spec = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "gridColor": "var(--rule)",
        "labelColor": "var(--faint)",
        "labelFontSize": 12,
        "tickColor": "var(--rule)",
        "titleColor": "var(--faint)",
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    },
}


@dataclass(frozen=True)
class Axis:
    """What an axis shows: the quantity, and the unit behind each number, SI prefix added."""

    title: str
    unit: str
    log: bool = False

    def said(self, field: str, digits: str = "") -> str:
        """Return the Vega expression that writes a field with SI prefix and unit."""
        number = f"format(datum.{field}, '{digits}~s')"
        return f"replace({number}, regexp('([a-zA-Zµ]?)$'), ' $1') + '{self.unit}'"

    def encoding(self, values: Iterable[float]) -> Spec:
        """Return the encoding of the field "y" for these values."""
        axis: Spec = {"title": self.title, "labelExpr": self.said("value"), "tickCount": 5}
        scale: Spec = {"zero": True}
        if self.log:
            positive = [value for value in values if value > 0] or [1.0]
            low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
            high = max(high, low + 1)
            scale = {"type": "log", "domain": [10.0**low, 10.0**high]}
            axis["values"] = [10.0**power for power in range(low, high + 1)]
        return {"field": "y", "type": "quantitative", "axis": axis, "scale": scale}


def tone(setup: str) -> str:
    """Return the colour of a setup; baselines are grey."""
    return COLOURS.get(setup, BASELINE_COLOUR)


def colour(setups: Mapping[str, str]) -> Spec:
    """Return the encoding of the field "name"; `setups` has the name of each setup."""
    scale = {"domain": list(setups.values()), "range": list(map(tone, setups))}
    return {"field": "name", "type": "nominal", "scale": scale, "legend": None}


@dataclass(frozen=True)
class Bar:
    """A bar: the row that it is in, its setup and name, its figure and the figures of its turns."""

    row: str
    setup: str
    name: str
    figure: float
    turns: Sequence[float] = ()


def bars(drawn: Sequence[Bar], axis: Axis) -> Spec:
    """Return horizontal bars, grouped by row, each with its figure and the range of its turns."""
    data = [
        {
            "row": bar.row,
            "name": bar.name,
            "y": bar.figure,
            "low": min(bar.turns, default=bar.figure),
            "high": max(bar.turns, default=bar.figure),
            "said": metric(bar.figure, axis.unit),
            "turns": ", ".join(metric(figure, axis.unit) for figure in bar.turns),
        }
        for bar in drawn
    ]
    length = axis.encoding([bar.figure for bar in drawn])
    longest = max((max(bar.figure, *bar.turns, 0.0) for bar in drawn), default=0.0)
    length["scale"] = {"domain": [0, _ROOM_FOR_TEXT * longest], "nice": False}
    names = list({bar.setup: bar.name for bar in drawn}.values())
    rows = list(dict.fromkeys(bar.row for bar in drawn))
    label: Spec = (
        {"title": None, "labelLimit": 120} if any(rows) else {"title": None, "labels": False}
    )
    group = {"field": "row", "type": "nominal", "sort": rows, "axis": label | {"ticks": False}}
    tooltip = [
        {"field": "name", "title": "setup"},
        {"field": "said", "title": "median"},
        {"field": "turns", "title": "turns"},
    ]
    return {
        "width": "container",
        "height": {"step": 21},
        "data": {"values": data},
        "encoding": {
            "y": group | {"scale": {"paddingInner": 0.25, "paddingOuter": 0.1}},
            "yOffset": {"field": "name", "sort": names, "scale": {"paddingInner": 0.15}},
            "color": colour({bar.setup: bar.name for bar in drawn}),
            "tooltip": tooltip,
        },
        "layer": [
            {"mark": {"type": "bar", "cornerRadiusEnd": 2}, "encoding": {"x": length}},
            {
                "mark": {"type": "rule", "color": "var(--ink)", "opacity": 0.55},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                    "color": {"value": "var(--ink)"},
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 12},
                "encoding": {
                    "x": {"field": "high", "type": "quantitative"},
                    "text": {"field": "said"},
                    "color": {"value": "var(--ink)"},
                },
            },
        ],
    }


@dataclass(frozen=True)
class Line:
    setup: str
    name: str
    points: Sequence[tuple[float, float]]


def percentiles(drawn: Sequence[Line], axis: Axis) -> Spec:
    """Return latencies by percentile; 90, 99, 99.9, ... are equally far from each other."""
    highest = max((x for line in drawn for x, _ in line.points if x < 100), default=99.0)
    last = max(2, math.floor(_nines(highest)))
    curves = [
        Line(line.setup, line.name, [(min(_nines(x), last), y) for x, y in line.points if y > 0])
        for line in drawn
    ]
    text = "format(100 - pow(10, 2 - {}), '.6~f') + ' %'"
    across = {
        "axis": {
            "title": "share of appends that take at most this long",
            "values": [0, _nines(50), *range(1, last + 1)],
            "labelExpr": text.format("datum.value"),
            "labelOverlap": "greedy",
        },
        "scale": {"domain": [0, last]},
    }
    return _lines(curves, across, axis, text.format("datum.x"))


def over_time(drawn: Sequence[Line], axis: Axis) -> Spec:
    """Return a quantity over the seconds of a turn."""
    across = {"axis": {"title": "seconds since the start", "tickCount": 8}, "scale": {"zero": True}}
    return _lines(drawn, across, axis, "format(datum.x, '.3~f') + ' s'")


def _lines(drawn: Sequence[Line], across: Spec, axis: Axis, about: str) -> Spec:
    """Return curves over an axis; `about` is a Vega expression that describes a point's place."""
    points = [(line.name, x, y) for line in drawn for x, y in line.points]
    # Not `nearest`: its tooltip has no figures in a layered chart.
    near = {"type": "point", "on": "pointerover", "clear": "pointerout"}
    shown = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    tooltip = [
        {"field": "name", "title": "setup"},
        {"field": "at", "title": "at"},
        {"field": "said", "title": axis.title},
    ]
    return {
        "width": "container",
        "height": 300,
        "data": {"values": [dict(zip(("name", "x", "y"), point, strict=True)) for point in points]},
        "transform": [
            {"calculate": axis.said("y", ".3"), "as": "said"},
            {"calculate": about, "as": "at"},
        ],
        "encoding": {
            "x": {"field": "x", "type": "quantitative"} | across,
            "y": axis.encoding([y for _, _, y in points]),
            "color": colour({line.setup: line.name for line in drawn}),
        },
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"}},
            {
                "params": [{"name": "near", "select": near}],
                "mark": {"type": "point", "filled": True, "size": 140},
                "encoding": {"opacity": shown, "tooltip": tooltip},
            },
        ],
    }


def _nines(percentile: float) -> float:
    return -math.log10(max(1e-9, 1 - percentile / 100))
