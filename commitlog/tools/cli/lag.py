"""Report how far a copy is, and how far behind, while a thread of this process copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from commitlog.tools.cli.output import echo


class Copying(Protocol):
    """What copies: a follower, or a mirror."""

    @property
    def position(self) -> int: ...
    def wait(self, *, timeout: float) -> bool: ...


def report_lag(
    copying: Copying, interval_s: float, lag: Callable[[], int], text_of: Callable[[int], str]
) -> None:
    """Print position and lag when they have changed, until the copying ends."""
    shown = copying.position, 0
    while not copying.wait(timeout=interval_s):
        now = copying.position, lag()
        if now != shown:
            shown = now
            echo(f"position {now[0]}, {text_of(now[1])} behind")
