"""Deletion: which segments of a log may be deleted, and what keeps the next one.

Plain decisions, without files, locks and clock. Every deletion asks here: retention, `prune`,
`delete_before` and archives, in the program that writes the log and in any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from commitlog.errors import InvalidOptionError

Waivable = Literal["store", "copies"]


def waived(force: object) -> frozenset[str]:
    """Return the holds that a caller waives, checked."""
    given = [force] if isinstance(force, str) else force
    known = get_args(Waivable)
    if not isinstance(given, Collection) or not all(each in known for each in given):
        raise InvalidOptionError(f"force must be some of {', '.join(known)}, not {force!r}")
    return frozenset(given)


@dataclass(frozen=True)
class Hold:
    """Keep the segments from a number on. Its name is "flush", "store", "copies", "tailers", or
    that of an extension.
    """

    name: str
    number: int
    reason: str


@dataclass(frozen=True)
class OldestSegment:
    """The oldest segment that is left, as its files show it.

    Attributes
    ----------
    number : int
    disk_bytes : int
    sealed : bool
    followed : bool
        Whether the next segment is sealed, too.
    rolled_ns : int or None
        When the log rolled past the segment; None if that is not known, or no limit needs it.
    holders : sequence of str
        The tailers and views of this process that hold it.
    """

    number: int
    disk_bytes: int
    sealed: bool
    followed: bool
    rolled_ns: int | None = None
    holders: Sequence[str] = ()


class Wish(Protocol):
    """Which segments a caller wants to delete."""

    # Why the first segment that it does not want stays.
    rest: str

    def reason(self, segment: OldestSegment) -> str | None:
        """Return why a segment is to go; None, and set `rest`, if it is to stay."""

    def count_deletion(self, segment: OldestSegment) -> None:
        """Take a deletion into account."""


@dataclass
class Below:
    """Wish for the segments below a number."""

    number: int
    rest: str = "it is not below the position"

    def reason(self, segment: OldestSegment) -> str | None:
        return "position" if segment.number < self.number else None

    def count_deletion(self, segment: OldestSegment) -> None: ...


@dataclass
class Limits:
    """Wish for the segments that exceed a limit.

    Attributes
    ----------
    excess_bytes : int
        How much more space the log takes than `max_bytes`.
    missing_bytes : int
        How much free space the file system lacks.
    oldest_ns : int or None
        Segments that the log rolled past by then are too old; None: there is no limit of age.
    closed : str or None
        Why the limits of age and size do not apply at this time of day; None if they do.
    """

    excess_bytes: int
    missing_bytes: int
    oldest_ns: int | None
    closed: str | None
    rest: str = ""

    def reason(self, segment: OldestSegment) -> str | None:
        if self.missing_bytes > 0:
            return "min_free"
        if self.closed is not None:
            self.rest = self.closed
            return None
        if self.excess_bytes > 0:
            return "max_bytes"
        self.rest = "the remaining segments are within every limit"
        if self.oldest_ns is None:
            return None
        if not segment.sealed:
            self.rest = "it is not sealed yet"  # its age has not begun
        elif segment.rolled_ns is None:
            self.rest = "its age is not known: the next segment does not say when the log rolled"
        elif segment.rolled_ns <= self.oldest_ns:
            return "max_age"
        return None

    def count_deletion(self, segment: OldestSegment) -> None:
        self.excess_bytes -= segment.disk_bytes
        self.missing_bytes -= segment.disk_bytes


class Deletion:
    """Decide on the segments of a log one after the other, oldest first, until one stays.

    Parameters
    ----------
    wish : Wish
        Which segments to delete.
    holds : sequence of Hold
        What keeps segments.
    copies_only : bool
        The segments are copied to an archive and stay here, so only unsealed and undurable ones are
        refused.
    waits : bool
        The caller waits for holders of this process.
    """

    def __init__(
        self,
        wish: Wish,
        holds: Sequence[Hold],
        *,
        copies_only: bool = False,
        waits: bool = False,
    ) -> None:
        self._wish = wish
        self._holds = [hold for hold in holds if hold.name == "flush" or not copies_only]
        self._copies_only = copies_only
        self._waits = waits
        self.stopped_by = "the log has no segments"
        self.stopping: Hold | None = None
        self.complete = True

    def decide(self, segment: OldestSegment) -> str | None:
        """Return why a segment goes, or None: it stays, and so does every later one."""
        reason = self._wish.reason(segment)
        if reason is None:
            self.stopped_by, self.complete = self._wish.rest, True
            return None
        obstacle = self._obstacle(segment)
        if obstacle is not None:
            self.stopped_by, self.complete = obstacle, False
            return None
        self._wish.count_deletion(segment)
        return reason

    def _obstacle(self, segment: OldestSegment) -> str | None:
        if not segment.sealed:
            return "it is not sealed yet"
        for hold in self._holds:
            if segment.number >= hold.number:
                self.stopping = hold
                return hold.reason
        if self._copies_only:
            return None
        # The last seal has the sequence with which the next segment begins.
        if not segment.followed:
            return "it is the last sealed segment, which always stays"
        if segment.holders and not self._waits:
            return f"it is held by {', '.join(segment.holders)}"
        return None
