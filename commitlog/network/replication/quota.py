"""Quota: how far the copies of one log acknowledge it. It decides; `Acknowledgements` acts.

A follower reports the end of its copy. A report is bounded by what the log knows itself: its epoch,
and the end of what was sent to this follower. Events go in, an action comes out. There is no clock,
no lock and no file inside.
"""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.extension import FRAME_ALIGN, Lineage, Rank

FOLLOWERS_LIMIT = 1024  # names that are remembered


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copied:
    """A follower reports that its copy is durable up to a position.

    Attributes
    ----------
    name : str
        The follower.
    rank : Rank
        The epoch that its copy has.
    position : int
        The end of the copy.
    current : Lineage
        The log's.
    sent : int
        The end of what was sent to this follower, or of what its copy had before.
    """

    name: str
    rank: Rank
    position: int
    current: Lineage
    sent: int


@dataclass(frozen=True)
class Promised:
    """A copy reports the epoch that it has promised; `current` is the log's lineage."""

    rank: Rank
    current: Lineage


Event = Copied | Promised


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fenced:
    """A copy has a later epoch: nothing is acknowledged from now on."""

    rank: Rank


@dataclass(frozen=True)
class Refused:
    """A report does not count, because it cannot be true."""

    why: str


Action = Fenced | Refused


class Quota:
    """Remember the end of each copy by the name of its follower.

    A follower that has gone still counts: what it has acknowledged is durable there. What was
    acknowledged in an earlier epoch does not count in a later one. After a fence, nothing counts.
    """

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}  # the one that reported last is the last
        self._rank = Rank()
        self._fence: Rank | None = None

    @property
    def positions(self) -> dict[str, int]:
        """The end of each copy by its follower's name."""
        return dict(self._positions)

    @property
    def fence(self) -> Rank | None:
        """The epoch of a copy because of which nothing is acknowledged any more."""
        return self._fence

    def reached(self, copies: int) -> int:
        """Return the position up to which so many copies are durable."""
        positions = sorted(self._positions.values(), reverse=True)
        return positions[copies - 1] if len(positions) >= copies else 0

    def begin(self, rank: Rank) -> None:
        """Take the epoch that the log has: it ends a fence that is not above it."""
        if self._fence is not None and rank >= self._fence:
            self._fence = None

    def on(self, event: Event) -> Action | None:
        """Take an event; return what follows from it besides the positions."""
        self.begin(event.current.rank)
        if isinstance(event, Promised):
            return self._on_promised(event.rank, event.current)
        return self._on_copied(event)

    def _on_copied(self, event: Copied) -> Action | None:
        current = event.current.rank
        if event.rank > current:
            return self._on_promised(event.rank, event.current)
        if event.rank < current:
            return None  # the follower has to adopt the log's epoch first
        if event.position % FRAME_ALIGN or event.position > event.sent:
            return Refused(
                f"the follower {event.name!r} acknowledged position {event.position}, and what "
                f"was sent to it ends at {event.sent}: the acknowledgement does not count"
            )
        if self._fence is not None:
            return None  # the copy may be cut when it adopts that epoch
        if event.rank != self._rank:
            self._rank = event.rank
            self._positions.clear()
        known = self._positions.pop(event.name, None)
        if known is None and len(self._positions) >= FOLLOWERS_LIMIT:
            del self._positions[next(iter(self._positions))]
        # A copy that lacks records below the epoch's start may lose to one of an older epoch. A
        # copy that was removed and made again may have less than before.
        reached = event.position if event.position >= event.current.start else 0
        self._positions[event.name] = reached
        return None

    def _on_promised(self, rank: Rank, current: Lineage) -> Action | None:
        if not current.believes(rank):
            return Refused(current.disbelief(rank))
        if rank.number < 1 or rank <= max(current.rank, self._fence or current.rank):
            return None
        self._fence = rank
        return Fenced(rank)
