"""SegmentEvents: what becomes of segments."""

from __future__ import annotations


class SegmentEvents:
    """Told of each step in a segment's life, by its number. No method waits or raises; here they do
    nothing.
    """

    def created(self, number: int) -> None:
        """A segment was made, ahead of need or not."""

    def sealed(self, number: int) -> None:
        """Nothing in the segment changes any more."""

    def released(self, number: int) -> None:
        """This handle has the segment mapped no more."""

    def deleted(self, number: int) -> None:
        """The segment's file is gone."""


NO_EVENTS = SegmentEvents()
