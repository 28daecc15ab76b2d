"""What becomes of segments, told to whoever wants to know."""

from __future__ import annotations

from typing import Protocol


class SegmentEvents(Protocol):
    """Told of each step in a segment's life, by its number. None of them waits for anything or
    raises.
    """

    def created(self, number: int) -> None:
        """It is there, ahead of need or not."""

    def sealed(self, number: int) -> None:
        """Nothing in it changes any more."""

    def released(self, number: int) -> None:
        """This handle has it mapped no more."""

    def deleted(self, number: int) -> None:
        """Its file is gone."""


class NoEvents:
    """Nobody wants to know."""

    def created(self, number: int) -> None: ...

    def sealed(self, number: int) -> None: ...

    def released(self, number: int) -> None: ...

    def deleted(self, number: int) -> None: ...


NO_EVENTS = NoEvents()
