"""What `commitlog top` shows, laid out for eighty columns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from commitlog.base.units import DURATION_UNITS_NS
from commitlog.cli.moving import Rates
from commitlog.cli.printed import escaped
from commitlog.observe.watching import LogFigures, WriterFigures
from commitlog.segment.directory import Kind
from commitlog.tail.tailer_state import TailerState

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T")
_AGE_UNITS = ("d", "h", "m", "s")
_KINDS: dict[Kind, str] = {"log": "", "archive": "an archive", "segment": "a segment"}
_COLORS = {"dead": "red", "stopped": "red", "held up": "yellow", "appending": "green"}


def panel(figures: LogFigures, rates: Rates, hint: str = "") -> RenderableType:
    """One look at a log, with a word beside its name. What is apart from its log has no watermarks
    that move, no writers, no tailers.
    """
    title = _title(figures).append(hint, Style(dim=True)).append("\n")
    if figures.kind != "log":
        return Group(title, _ends(figures), _facts(figures, rates))
    parts: list[RenderableType] = [title, _watermarks(figures, rates), _facts(figures, rates)]
    parts += (
        [Text(), _writers(figures, rates)] if figures.writers else [Text("\nno writer has it open")]
    )
    if figures.tailers:
        parts += [Text(), _tailers(figures, rates)]
    return Group(*parts)


def _title(figures: LogFigures) -> Text:
    state = ", ".join(
        word
        for word in (
            _KINDS[figures.kind] or figures.mode or "not open since the machine started",
            "recovering" if figures.recovering else "",
            f"FAILED: {figures.failed}" if figures.failed else "",
        )
        if word
    )
    return Text(
        f"{escaped(figures.path.encode('utf-8', 'surrogateescape'))}  {state}\n",
        Style(bold=True),
        overflow="ellipsis",
        no_wrap=True,
    )


def _watermarks(figures: LogFigures, rates: Rates) -> Table:
    table = _table("", ">position", ">behind tail", ">moves")
    for name, position, rate in (
        ("tail", figures.tail_position, rates.tail_bytes),
        ("appended", figures.appended_position, None),
        ("committed", figures.committed_position, rates.committed_bytes),
        ("flushed", figures.flushed_position, rates.flushed_bytes),
        ("first", figures.first_position, None),
    ):
        behind = "" if name == "tail" else in_bytes(max(0, figures.tail_position - position))
        table.add_row(name, f"{position:,}", behind, "" if rate is None else f"{in_bytes(rate)}/s")
    return table


def _ends(figures: LogFigures) -> Table:
    table = _table("", ">position")
    table.add_row("first", f"{figures.first_position:,}")
    table.add_row("end", f"{figures.tail_position:,}")
    return table


def _facts(figures: LogFigures, rates: Rates) -> Text:
    return Text("\n" + "\n".join(_sentences(figures, rates)), overflow="ellipsis", no_wrap=True)


def _sentences(figures: LogFigures, rates: Rates) -> Iterator[str]:
    if figures.first_sequence is None or figures.next_sequence is None:
        yield "records   cannot be counted: commitlog verify says why"
    else:
        count = figures.next_sequence - figures.first_sequence
        listed = (
            f", sequences {figures.first_sequence:,} to {figures.next_sequence - 1:,}"
            if count
            else ""
        )
        appended = "" if rates.records is None else f", {in_numbers(rates.records)}/s"
        yield f"records   {count:,}{appended}{listed}"
    stored = "compressed" if figures.kind == "archive" else "on disk"
    yield (
        f"segments  {figures.segments} of {in_bytes(figures.segment_size)}, "
        f"{in_bytes(figures.disk_bytes)} {stored}"
    )
    if figures.free_bytes is not None and figures.device_bytes is not None:
        share = figures.free_bytes / figures.device_bytes if figures.device_bytes else 0.0
        yield (
            f"free      {in_bytes(figures.free_bytes)} of {in_bytes(figures.device_bytes)}, "
            f"{share:.0%}"
        )
    if figures.kind == "log":
        yield f"claims    {figures.rolled_back_claims} rolled back"


def _writers(figures: LogFigures, rates: Rates) -> Table:
    table = _table("slot", ">pid", "writer", "state", ">claims/s", ">rolled back", ">since")
    for writer in figures.writers:
        claims = rates.claims.get(writer.slot)
        # A pooled log's appends leave its slot alone.
        claimed = "" if claims is None or figures.mode == "pooled" else in_numbers(claims)
        state = Text(_state(writer), Style(color=_COLORS.get(writer.state)))
        name = _cell(writer.name)
        table.add_row(
            str(writer.slot),
            str(writer.pid),
            name,
            state,
            claimed,
            str(writer.rolled_back_claims),
            _age(writer.since_ns),
        )
    return table


def _state(writer: WriterFigures) -> str:
    return f"{writer.state}, flushes" if writer.flushing else writer.state


def _tailers(figures: LogFigures, rates: Rates) -> Table:
    table = _table("tailer", ">position", ">lag", ">moves", ">saved", "reader")
    for tailer in figures.tailers:
        moves = rates.tailers.get(tailer.name)
        table.add_row(
            _cell(tailer.name),
            "?" if tailer.position is None else f"{tailer.position:,}",
            "?" if tailer.lag_bytes is None else in_bytes(tailer.lag_bytes),
            "" if moves is None else f"{in_bytes(moves)}/s",
            _age(tailer.saved_ns) if tailer.saved_ns else "",
            _reader(tailer),
        )
    return table


def _reader(tailer: TailerState) -> Text:
    if tailer.damage is not None:
        return Text("damaged", Style(color="red"))
    told = [escaped(os.fsencode(tailer.owner)) if tailer.owner is not None else "none"]
    if tailer.required:
        told.append("required")
    if tailer.evicted_ns is not None:
        told.append("evicted")
    if tailer.dropped_records:
        told.append(f"{tailer.dropped_records} dropped")
    return Text(
        ", ".join(told),
        Style(color="red" if tailer.dropped_records or tailer.evicted_ns is not None else None),
    )


# --- cells ----------------------------------------------------------------------------------------


def _table(*headings: str) -> Table:
    """A table without lines; a heading that begins with > is of figures."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(
            name, justify="left" if name == heading else "right", no_wrap=True, overflow="ellipsis"
        )
    return table


def _cell(name: str) -> Text:
    """What another process says, without anything that a terminal would act on."""
    return Text(escaped(os.fsencode(name)))


def _age(since_ns: int) -> str:
    age_ns = time.time_ns() - since_ns
    for unit in _AGE_UNITS:
        if age_ns >= DURATION_UNITS_NS[unit]:
            return f"{age_ns / DURATION_UNITS_NS[unit]:.0f} {unit}"
    return "now"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that fits it."""
    return _scaled(count, 1024, _BINARY)


def in_numbers(count: float) -> str:
    """A number in thousands, millions, ..."""
    return _scaled(count, 1000, _DECIMAL).rstrip()


def _scaled(count: float, step: int, units: tuple[str, ...]) -> str:
    unit = 0
    while count >= step * 0.9995 and unit + 1 < len(units):
        count /= step
        unit += 1
    return (
        f"{count:.0f} {units[unit]}" if unit == 0 or count >= 100 else f"{count:.1f} {units[unit]}"
    )
