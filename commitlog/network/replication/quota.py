"""Quota: how far the copies of one log acknowledge it. It decides; `Acknowledgements` acts.

A follower reports the end of its copy. A report is bounded by what the log knows itself: its epoch,
and the end of what was sent to this follower. Events go in, actions come out. There is no clock, no
lock and no file inside.
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


@dataclass(frozen=True)
class Awaited:
    """A caller waits until so many copies have everything below `end`, at most until `until_s`."""

    key: int
    end: int
    copies: int
    until_s: float


@dataclass(frozen=True)
class Dropped:
    """A caller waits no more."""

    key: int


@dataclass(frozen=True)
class Tick:
    """So late is it."""

    now_s: float


Event = Copied | Promised | Awaited | Dropped | Tick


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    """Enough copies have what a caller waits for."""

    key: int


@dataclass(frozen=True)
class Expired:
    """The time of a caller is over."""

    key: int


@dataclass(frozen=True)
class Fenced:
    """A copy has a later epoch: nothing is acknowledged from now on."""

    rank: Rank


@dataclass(frozen=True)
class Refused:
    """A report does not count, because it cannot be true."""

    why: str


Action = Reached | Expired | Fenced | Refused


class Quota:
    """Remember the end of each copy by the name of its follower, and who waits for them.

    A follower that has gone still counts: what it has acknowledged is durable there. What was
    acknowledged in an earlier epoch does not count in a later one.
    """

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}  # the one that reported last is the last
        self._rank = Rank()
        self._fence: Rank | None = None
        self._awaited: dict[int, Awaited] = {}

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

    def on(self, event: Event) -> list[Action]:
        """Take an event; return what follows from it."""
        if isinstance(event, Copied):
            return self._on_copied(event)
        if isinstance(event, Promised):
            return self._on_promised(event.rank, event.current)
        if isinstance(event, Awaited):
            self._awaited[event.key] = event
            return self._end_waits([event])
        if isinstance(event, Dropped):
            self._awaited.pop(event.key, None)
            return []
        late = [each for each in self._awaited.values() if event.now_s >= each.until_s]
        for each in late:
            del self._awaited[each.key]
        return [Expired(each.key) for each in late]

    def _on_copied(self, event: Copied) -> list[Action]:
        current = event.current.rank
        if event.rank > current:
            return self._on_promised(event.rank, event.current)
        if event.rank < current:
            return []  # the follower has to adopt the log's epoch first
        if event.position % FRAME_ALIGN or event.position > event.sent:
            return [
                Refused(
                    f"the follower {event.name!r} acknowledged position {event.position}, and what "
                    f"was sent to it ends at {event.sent}: the acknowledgement does not count"
                )
            ]
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
        return self._end_waits(list(self._awaited.values()))

    def _on_promised(self, rank: Rank, current: Lineage) -> list[Action]:
        if not current.believes(rank):
            return [Refused(current.disbelief(rank))]
        if rank.number < 1 or rank <= max(current.rank, self._fence or current.rank):
            return []
        self._fence = rank
        self._awaited.clear()
        return [Fenced(rank)]

    def _end_waits(self, waiting: list[Awaited]) -> list[Action]:
        """Return which of these have what they wait for; they wait no more."""
        found = [each for each in waiting if self.reached(each.copies) >= each.end]
        for each in found:
            del self._awaited[each.key]
        return [Reached(each.key) for each in found]
