"""Sizes, ages and latencies as text, the same in every command."""

from __future__ import annotations

import datetime as dt
import time

import humanize


def size_text(count: float) -> str:
    """Return a number of bytes in the binary unit that fits it."""
    return humanize.naturalsize(count, binary=True).replace(" Bytes", " B").replace(" Byte", " B")


def age_text(since_ns: int) -> str:
    return humanize.naturaldelta(
        dt.timedelta(microseconds=max(0, time.time_ns() - since_ns) // 1000)
    )


def latency_text(seconds: float) -> str:
    return humanize.metric(seconds, "s")


def counted(count: int, what: str) -> str:
    """Return a number of things, such as `1 record` or `2,000 records`."""
    return f"{count:,} {what}{'s' * (count != 1)}"
