"""Helpers for the tests of back-pressure."""

from __future__ import annotations

from typing import Any

from commitlog import CommitLog, Tailer
from commitlog.errors import TailerLagError

VALUE = b"x" * 100
FRAME = 120
MAX_LAG = 20 * FRAME


def required(log: CommitLog, name: str = "a", **options: Any) -> Tailer:
    return log.tailer(name, required=True, max_lag=MAX_LAG, visibility="appended", **options)


def append_until_refused(log: CommitLog, most: int = 100_000) -> int:
    """Return the number of appends until one is refused; fail if `most` of them pass."""
    for count in range(most):
        try:
            log.append(VALUE)
        except TailerLagError:
            return count
    raise AssertionError(f"none of {most} appends was refused")
