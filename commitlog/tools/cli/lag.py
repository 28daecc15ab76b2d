"""Report how far a copy is, and how far behind, while a thread of this process copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from commitlog.tools.cli.output import echo
from commitlog.tools.cli.progress import byte_progress

_LOOK_S = 0.2
_LOOKS_FIRST = 10  # before the other machine has said where it ends


class Copying(Protocol):
    """What copies: a follower, or a mirror."""

    @property
    def position(self) -> int: ...
    def wait(self, *, timeout: float) -> bool: ...


def show_catch_up(copying: Copying, lag: Callable[[], int]) -> None:
    """Show on a terminal how far a copy is, until it has caught up once."""
    with byte_progress("catch up") as show:
        if show is None:
            return
        first, looks = copying.position, 0
        while not copying.wait(timeout=_LOOK_S):
            done, behind, looks = copying.position - first, lag(), looks + 1
            if behind == 0 and (done or looks >= _LOOKS_FIRST):
                return
            show(done, done + behind)


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
