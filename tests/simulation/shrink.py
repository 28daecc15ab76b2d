"""Shrink: the shortest list of events with which a run still violates the same rule."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Event


def shrunk(events: list[Event], fails: Callable[[list[Event]], bool]) -> list[Event]:
    """Leave events out, by halves and then one by one, while the run fails."""
    size = len(events) // 2
    while size:
        at = 0
        while at < len(events):
            fewer = events[:at] + events[at + size :]
            if fails(fewer):
                events = fewer
            else:
                at += size
        size //= 2
    return events
