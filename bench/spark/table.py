"""What was measured beside its goals, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.marked import Marked
from bench.spark.rows import median

PLACE = Marked("spark")
Line = tuple[str, str, str, bool | None]


def render(results: dict[str, Any]) -> str:
    """As Markdown."""
    lines = ["| what | measured | goal | met |", "| --- | --- | --- | --- |"]
    for name, figures in results["rows"].items():
        for what, measured, goal, met in _LINES[name](figures, results["records"]):
            lines.append(
                f"| {what} | {measured} | {goal} | "
                f"{'' if met is None else 'yes' if met else 'no'} |"
            )
    return "\n".join(lines) + "\n"


_RATIOS = {
    "count()": 1.5,
    "7 columns into the noop sink": 1.1,
    "sum(length(value)) of the last 1 % by timestamp": 1.3,
}


def _batch(figures: dict[str, Any], records: int) -> Iterator[Line]:
    took_s = {name: median(seconds) for name, seconds in figures["seconds"].items()}
    for name, log_s in took_s.items():
        source, _, query = name.partition(": ")
        if source == "log":
            parquet_s = took_s[f"Parquet: {query}"]
            ratio, most = log_s / parquet_s, _RATIOS.get(query)
            yield (
                f"{query}, log beside Parquet",
                f"{log_s * 1e3:.0f} beside {parquet_s * 1e3:.0f} ms: {ratio:.2f}",
                "" if most is None else f"at most {most}",
                None if most is None else ratio <= most,
            )


def _one_percent(figures: dict[str, Any], records: int) -> Iterator[Line]:
    share = figures["read_bytes"] / figures["whole_bytes"]
    yield "bytes read for 1 % of the offsets", f"{100 * share:.2f} %", "1 %", share < 0.0105


def _memory(figures: dict[str, Any], records: int) -> Iterator[Line]:
    peak = max(figures["worker_bytes"]) / (1 << 20)
    yield (
        f"a worker's memory, log of {figures['log_bytes'] / (1 << 20):.0f} MiB",
        f"{peak:.0f} MiB",
        "does not grow",
        None,
    )


def _large(figures: dict[str, Any], records: int) -> Iterator[Line]:
    took_s = sum(figures["batch_ms"]) / 1e3
    rate = sum(figures["batch_records"]) / took_s if took_s else 0.0
    size = max(figures["batch_records"], default=0)
    yield (
        f"stream into the noop sink, 7 columns, batches of {size:,} records",
        f"{rate / 1e6:.2f} M records/s",
        "at least 1.5 M/s",
        rate >= 1.5e6,
    )


def _small(figures: dict[str, Any], records: int) -> Iterator[Line]:
    took_ms = median(figures["batch_ms"])
    size = max(figures["batch_records"], default=0)
    yield (
        f"stream into the noop sink, 7 columns, batches of {size:,} records, median",
        f"{took_ms:.0f} ms",
        "at most 250 ms",
        took_ms <= 250,
    )


def _live(figures: dict[str, Any], records: int) -> Iterator[Line]:
    p50_ms = median(figures["latency_ms"])
    yield "live append to foreachBatch, p50", f"{p50_ms:.0f} ms", "at most 300 ms", p50_ms <= 300


def _write(figures: dict[str, Any], records: int) -> Iterator[Line]:
    rate = records / min(figures["seconds"]["write"])
    yield "write", f"{rate / 1e6:.2f} M records/s", "at least 1 M/s", rate >= 1e6


_LINES = {
    "batch": _batch,
    "one-percent": _one_percent,
    "memory": _memory,
    "large-batches": _large,
    "small-batches": _small,
    "live": _live,
    "write": _write,
}
