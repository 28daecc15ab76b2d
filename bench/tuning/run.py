"""Measures each row in turns."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tuning import kill
from bench.tuning.kill import Kill
from bench.tuning.knobs import Knob
from commitlog.base.histogram import PERCENTILES, Histogram
from commitlog.base.units import MIB
from commitlog.errors import DiskFullError, PoolMemoryError
from commitlog.tools.bench import appends, case, machine, paced, sync_threads
from commitlog.tools.bench.case import Case, Settings
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workspace import SkippedError, Workspace

FORMAT = "commitlog-tuning/1"
SEED = 20260101
SMALL, LARGE = 40, 1024
SETTINGS = Settings(turns=3, sync_s=1.0, paced_s=2.0, rate=100_000_000, sustained_bytes=512 * MIB)
QUICK = dataclasses.replace(case.QUICK, paced_s=0.02, rate=5_000_000, sustained_bytes=MIB)
QUICK_BUFFER_SIZE = 2 * MIB
KILLS, QUICK_KILLS = 5, 1
QUICK_CYCLE_S = 0.02
Progress = Callable[[str, int, int], None]


@dataclass
class Row:
    """What came of a knob; a list has one figure a turn."""

    setup: str
    name: str
    flush: str
    threads: int
    # Records a second: small ones in bursts, or, under "sync", as they become durable.
    appends_s: list[float] = field(default_factory=list)
    sustained_bytes_s: list[float] = field(default_factory=list)
    # Percentiles at a constant rate, from when each append was due; under "sync", of each append.
    latency_ns: dict[str, list[int]] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)
    skipped: str = ""  # why there are no figures

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Row:
        """From JSON."""
        return cls(**{**entry, "kills": [Kill(**killed) for killed in entry["kills"]]})

    def take(self, sample: Sample) -> None:
        """Keep the percentiles of a turn."""
        histogram = Histogram()
        assert sample.latencies_ns is not None
        histogram.add(sample.latencies_ns)
        for name, percentile in PERCENTILES.items():
            self.latency_ns.setdefault(name, []).append(histogram.at(percentile))
        self.latency_ns.setdefault("max", []).append(histogram.largest_ns)

    def median_ns(self, name: str) -> float | None:
        return statistics.median(self.latency_ns[name]) if self.latency_ns else None


def run(
    directory: Path, knobs: Sequence[Knob], settings: Settings, progress: Progress
) -> dict[str, Any]:
    """Measure every row, in turns, and kill its children; as JSON has it."""
    began, started = time.monotonic(), dt.datetime.now().astimezone().isoformat(timespec="seconds")
    rows = [Row(knob.setup, knob.name, knob.flush, knob.threads) for knob in knobs]
    pairs = list(zip(knobs, rows, strict=True))
    total = len(pairs) * (settings.turns + 1)
    disk_rate: float | None = None
    for turn in range(settings.turns + 1):
        # Each turn begins with another row, so that none always follows the same one; the last turn
        # is that of the kills.
        for index in range(len(pairs)):
            knob, row = pairs[(index + turn * len(pairs) // settings.turns) % len(pairs)]
            progress(f"{knob.setup}: {knob.name}", turn * len(pairs) + index, total)
            if row.skipped:
                continue
            gc.collect()
            with Workspace(
                directory, settings, knob.log_options, _pool_options(knob, settings)
            ) as workspace:
                workspace.disk_rate = disk_rate
                try:
                    _take_turn(workspace, knob, row) if turn < settings.turns else _kill(
                        workspace, knob, row
                    )
                except (SkippedError, DiskFullError, PoolMemoryError) as error:
                    row.skipped = str(error)
                disk_rate = workspace.disk_rate
    return {
        "format": FORMAT,
        "started": started,
        "seconds": time.monotonic() - began,
        "machine": machine.describe(directory),
        "settings": dataclasses.asdict(settings),
        "kill": {"rate": kill.RATE, "value_size": kill.VALUE_SIZE, "seed": SEED},
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def _pool_options(knob: Knob, settings: Settings) -> dict[str, Any]:
    """A quick pass makes no large buffers."""
    small = settings.quick and "buffer_size" in knob.pool
    return knob.pool | ({"buffer_size": QUICK_BUFFER_SIZE} if small else {})


def _take_turn(workspace: Workspace, knob: Knob, row: Row) -> None:
    flush = kill.flush_of(knob)
    if flush == "sync":
        sample = sync_threads.measure(
            workspace, Case("sync-threads", knob.setup, "sync", SMALL, threads=knob.threads)
        )
        row.appends_s.append(sample.records / sample.seconds)
        row.take(sample)
        return
    sample = appends.measure_bursts(workspace, Case("append", knob.setup, flush, SMALL, "single"))
    row.appends_s.append(sample.records / sample.seconds)
    sample = appends.measure_sustained(workspace, Case("sustained", knob.setup, flush, LARGE))
    row.sustained_bytes_s.append(sample.value_bytes / sample.seconds)
    row.take(paced.measure(workspace, Case("paced", knob.setup, flush, LARGE)))


def _kill(workspace: Workspace, knob: Knob, row: Row) -> None:
    if knob.threads > 1:
        return  # one thread is enough to lose something
    quick = workspace.settings.quick
    moments_s = kill.moments(
        knob, QUICK_KILLS if quick else KILLS, SEED, QUICK_CYCLE_S if quick else knob.cycle_s
    )
    row.kills = kill.killed(knob, workspace.root, workspace, moments_s)
