"""Dashboard: what `commitlog top` shows on a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import deque
from typing import ClassVar

import numpy as np
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Footer, Sparkline, Static

import commitlog
from commitlog import TailerState
from commitlog.errors import CommitLogError, LogNotFoundError
from commitlog.tools.cli import INTERRUPTED
from commitlog.tools.cli.quantities import age_text, latency_text, size_text
from commitlog.tools.cli.rates import Rates
from commitlog.tools.cli.record_format import escaped
from commitlog.tools.observe.queue_watch import QueueFigures, QueueWatch
from commitlog.tools.observe.watching import LogFigures, LogWatch, WriterFigures

_SNAPSHOTS_KEPT = 120
_LATENCIES_KEPT = 1000
_NARROW = 70  # columns; below, tables keep their most important columns
_BAR_WIDTH = 10
_COLORS = {"dead": "red", "stopped": "red", "held up": "yellow", "appending": "green"}
_HELP = """\
[b]append[/b]   how fast the tail moves
[b]flush[/b]    how fast data becomes durable
[b]latency[/b]  from a record's timestamp
         until a tailer reads it
[b]behind[/b]   distance to the tail
[b]lag[/b]      distance of a named tailer to
         the end, as a share of the log

up, down, page up, page down  scroll
q, Ctrl-C  quit     any key  close help"""


class LatencySampler(threading.Thread):
    """Read single records as they become visible, and measure their age."""

    def __init__(self, path: str) -> None:
        super().__init__(name=f"commitlog latency {path}", daemon=True)
        self._path = path
        self._ended = threading.Event()
        self.latencies_ns: deque[int] = deque(maxlen=_LATENCIES_KEPT)

    def run(self) -> None:
        while not self._ended.wait(0.2):
            try:
                with commitlog.open(self._path, "r") as log:
                    self._sample(log)
            except (CommitLogError, OSError):
                continue  # the next snapshot reports it

    def _sample(self, log: commitlog.CommitLog) -> None:
        tailer = log.tailer(start="end", on_damage="skip")
        while not self._ended.wait(0.02):
            tailer.seek("end")
            batch = tailer.read_batch(1, timeout=0.2)
            if len(batch):
                self.latencies_ns.append(max(0, time.time_ns() - int(batch.timestamps_ns[0])))

    def take(self) -> list[int]:
        taken = []
        while self.latencies_ns:
            taken.append(self.latencies_ns.popleft())
        return taken

    def end(self) -> None:
        self._ended.set()
        self.join()


class Help(ModalScreen[None]):
    """Show what the figures mean, and the keys."""

    CSS = (
        "Help { align: center middle; } Help Static { width: 46; max-width: 100%; height: "
        "auto; background: $panel; }"
    )

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(_HELP)

    def on_key(self, event: Key) -> None:
        event.stop()  # else ? and h would open the help again
        self.dismiss()


class Dashboard(App[int]):
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { height: 1; text-style: bold; }
    .rate { height: 1; }
    .rate Static { width: 36; }
    .rate Sparkline { width: 1fr; height: 1; }
    .narrow .rate Static { width: 21; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    Sparkline > .sparkline--max-color { color: $success; }
    Sparkline > .sparkline--min-color { color: $primary; }
    .table { height: auto; margin-top: 1; }
    """
    BINDINGS: ClassVar = [
        Binding("q", "quit", "Quit"),
        Binding("question_mark,h", "help", "Help", key_display="?"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, watch: LogWatch, interval_s: float) -> None:
        super().__init__()
        self.failure: CommitLogError | None = None
        self._watch = watch
        self._queues = QueueWatch(watch.path)
        self._interval_s = interval_s
        self._before = watch.look()
        self._sampler = LatencySampler(watch.path)
        self._rates: dict[str, deque[float]] = {
            name: deque([0.0], maxlen=_SNAPSHOTS_KEPT) for name in ("append", "flush", "latency")
        }

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with VerticalScroll(can_focus=True):
            for name, history in self._rates.items():
                with Horizontal(classes="rate"):
                    yield Static(id=name, markup=False)
                    yield Sparkline(history, id=f"{name}-line")
            for name in ("figures", "writers", "tailers", "queues"):
                yield Static(id=name, classes="table")
        yield Footer()

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.action_interrupt)
        self._sampler.start()
        self._show(self._before)
        self.query_one(VerticalScroll).focus()
        self.set_interval(self._interval_s, self._update)

    def on_unmount(self) -> None:
        self._sampler.end()
        self._queues.close()

    def on_resize(self) -> None:
        self.set_class(self.size.width < _NARROW, "narrow")
        self._show(self._before)

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_interrupt(self) -> None:
        self.exit(INTERRUPTED)

    def _update(self) -> None:
        try:
            now = self._watch.look()
        except LogNotFoundError as error:
            self._fail(LogNotFoundError("the log was removed while it was shown", path=error.path))
        except CommitLogError as error:
            self._fail(error)
        else:
            self._show(now)

    def _fail(self, error: CommitLogError) -> None:
        self.failure = error
        self.exit(1)

    def _show(self, now: LogFigures) -> None:
        if not self.query("#tailers"):
            return  # a resize may come before the widgets
        rates = Rates.between(self._before, now)
        self._before = now
        latencies_s = [latency_ns / 1e9 for latency_ns in self._sampler.take()]
        p50, p99 = np.percentile(latencies_s, (50, 99)).tolist() if latencies_s else (0.0, 0.0)
        narrow = self.size.width < _NARROW
        records = "" if narrow else f", {rates.records or 0:,.0f}/s"
        median = "" if narrow else f"p50 {latency_text(p50)}, "
        texts = {
            "append": f"append   {_speed(rates.tail_bytes)}{records}",
            "flush": f"flush    {_speed(rates.flushed_bytes)}",
            "latency": (
                f"latency  {f'{median}p99 {latency_text(p99)}' if latencies_s else 'no record'}"
            ),
        }
        new = {"append": rates.tail_bytes, "flush": rates.flushed_bytes, "latency": p99}
        for name, text in texts.items():
            if new[name] is not None:
                self._rates[name].append(float(new[name] or 0))
            self.query_one(f"#{name}", Static).update(text)
            self.query_one(f"#{name}-line", Sparkline).data = list(self._rates[name])
        self.query_one("#title", Static).update(_title(now, self.size.width))
        self.query_one("#figures", Static).update(_figures(now, narrow=narrow))
        self.query_one("#writers", Static).update(_writers(now, rates, narrow=narrow))
        self.query_one("#tailers", Static).update(_tailers(now, rates, narrow=narrow))
        queues = self._queues.look()
        self.query_one("#queues", Static).display = bool(queues)
        self.query_one("#queues", Static).update(_queues_table(queues, narrow=narrow))


def _title(now: LogFigures, width: int) -> str:
    state: list[str] = [now.mode or "no writer since the machine started"]
    state += ["recovering"] * now.recovering + [f"FAILED: {now.failed}"] * (now.failed is not None)
    text, path = ", ".join(state), _safe(now.path)
    room = max(10, width - len(text) - 2)
    return f"{path if len(path) <= room else '…' + path[1 - room :]}  {text}"


def _figures(now: LogFigures, *, narrow: bool) -> RenderableType:
    table = _table("", ">position", ">behind", *[""] * (not narrow))
    facts = [
        _records(now),
        f"{now.segments} segments of {size_text(now.segment_size)}",
        f"{size_text(now.disk_bytes)} on disk",
    ]
    if now.free_disk_bytes is not None and now.disk_size_bytes:
        share = now.free_disk_bytes / now.disk_size_bytes
        facts.append(f"{size_text(now.free_disk_bytes)} free, {share:.0%}")
    facts.append(f"{now.rolled_back_claims:,} claims rolled back")
    names = ["tail", "appended", "committed", "flushed", "first"]
    if now.replication_lag_ms is not None:
        names.append("replicated")
        facts.append(f"copies lack {now.replication_lag_ms:,.0f} ms")
    positions = {name: getattr(now, f"{name}_position") for name in names}
    if now.store is not None:
        positions["stored"] = now.store.position
        error = now.store.last_error
        lacks = f"the store lacks {now.store.lag_ms:,.0f} ms"
        facts.append(lacks if error is None else f"NOT STORED: {_safe(error)}")
    for (name, position), fact in zip(positions.items(), facts, strict=False):
        behind = "" if name == "tail" else size_text(max(0, now.tail_position - position))
        table.add_row(name, f"{position:,}", behind, *[fact] * (not narrow))
    return Group(table, "", *facts) if narrow else table


def _records(now: LogFigures) -> str:
    if now.first_sequence is None or now.next_sequence is None:
        return "damage prevents counting records"
    return f"{now.next_sequence - now.first_sequence:,} records"


def _writers(now: LogFigures, rates: Rates, *, narrow: bool) -> Table | str:
    if not now.writers:
        return "no writer has the log open"
    table = _table(
        ">pid", "writer", "state", *[] if narrow else [">claims/s", ">rolled back", "for"]
    )
    for writer in now.writers:
        claims = rates.claims.get(writer.slot)
        # The slot of a pooled log does not count its appends.
        claimed = "" if claims is None or now.mode == "pooled" else f"{claims:,.0f}"
        more = [claimed, f"{writer.rolled_back_claims:,}", age_text(writer.since_ns)]
        table.add_row(str(writer.pid), _safe(writer.name), _state(writer), *[] if narrow else more)
    return table


def _state(writer: WriterFigures) -> Text:
    text = f"{writer.state}, flushes" if writer.flushing else writer.state
    return Text(text, _COLORS.get(writer.state, ""))


def _tailers(now: LogFigures, rates: Rates, *, narrow: bool) -> Table | str:
    if not now.tailers:
        return "no named tailers"
    table = _table("tailer", ">lag", "", *[] if narrow else [">moves", "reader"])
    for tailer in now.tailers:
        most = tailer.max_lag_bytes or max(1, now.tail_position - now.first_position)
        lag = tailer.lag_bytes
        more: list[RenderableType] = (
            [] if narrow else [_speed(rates.tailers.get(tailer.name)), _reader(tailer)]
        )
        table.add_row(
            _safe(tailer.name),
            "?" if lag is None else size_text(lag),
            ProgressBar(
                total=most,
                completed=min(most, lag or 0),
                width=_BAR_WIDTH,
                complete_style="red",
                finished_style="red",
            ),
            *more,
        )
    return table


def _queues_table(queues: list[QueueFigures], *, narrow: bool) -> Table:
    more = [] if narrow else [">waiting", ">oldest", ">accepted/s"]
    table = _table("queue", ">depth", ">held", ">dead", *more)
    for each in queues:
        stats, rate = each.stats, each.accepted_per_s
        name = f"{_safe(stats.name)} (drained)" if stats.paused else _safe(stats.name)
        table.add_row(
            name,
            "?" if stats.depth is None else f"{stats.depth:,}",
            f"{stats.held:,}",
            Text(f"{stats.dead:,}", "red" if stats.dead else ""),
            *[]
            if narrow
            else [
                f"{stats.waiting:,}",
                "" if stats.oldest_s is None else f"{stats.oldest_s:.3g} s",
                "" if rate is None else f"{rate:,.0f}",
            ],
        )
    return table


def _reader(tailer: TailerState) -> Text:
    if tailer.damage is not None:
        return Text("damaged", "red")
    parts = [_safe(tailer.owner or "none")]
    parts += ["required"] * tailer.required + ["evicted"] * (tailer.evicted_ns is not None)
    parts += [f"{tailer.dropped_records:,} dropped"] * bool(tailer.dropped_records)
    return Text(
        ", ".join(parts), "red" if tailer.dropped_records or tailer.evicted_ns is not None else ""
    )


# --- cells ----------------------------------------------------------------------------------------


def _table(*headings: str) -> Table:
    """Return a table without lines; a heading that begins with > is right-aligned."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(
            name, justify="left" if name == heading else "right", no_wrap=True, overflow="ellipsis"
        )
    return table


def _safe(name: str) -> str:
    """Return a name with its control characters escaped."""
    return escaped(os.fsencode(name))


def _speed(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{size_text(bytes_per_s)}/s"
