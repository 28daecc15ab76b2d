"""Events of segments, by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

# "created": made, ahead of need or not. "sealed": nothing in it changes any more. "released": this
# handle has unmapped it. "deleted": its file is gone.
Event = Literal["created", "sealed", "released", "deleted"]
# Must neither wait nor raise.
Report = Callable[[Event, int], None]


def ignore_event(event: Event, number: int) -> None:
    """Ignore an event."""
