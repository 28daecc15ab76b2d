"""Storing: what the service of a store decides, without a store, files, a clock or threads.

`standing` says whether a log may write to a store. `Storing.next_step` says what to store next. The
shell, `StoreService`, reads the facts, does the step, and reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from commitlog.stores.contents import Contents
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_session import StoreSession


class Standing(Enum):
    """How a log stands to the newest session of a store."""

    FIRST = "the store has no session yet"
    CONTINUES = "this directory began the newest session"
    INHERITS = "this directory was restored from the store, and no session has begun since"
    PROMOTED = "the promotion of this log began the newest session"
    ADVANCES = "this log was promoted, and the store has an earlier epoch"
    BEHIND = "another log was promoted"
    FOREIGN = "another writer began the newest session"

    @property
    def takes_over(self) -> bool:
        """Whether another writer may still be at work, so nothing of the end is relied on."""
        return self is not Standing.CONTINUES


def standing(newest: StoreSession, promotion: StoreSession, own: OwnSessions) -> Standing:
    """Return how a log, whose last promotion is given, stands to the newest session of a store."""
    if newest.epoch > promotion.epoch:
        return Standing.BEHIND
    if newest.epoch < promotion.epoch:
        return Standing.ADVANCES
    if newest.number == 0:
        return Standing.FIRST
    if own.has(newest.id):
        return Standing.CONTINUES
    if promotion.epoch and newest.id == promotion.id:
        return Standing.PROMOTED
    return Standing.INHERITS if newest.id == own.restored else Standing.FOREIGN


@dataclass(frozen=True)
class StoreWhole:
    """Store a sealed segment whole; its parts are covered then."""

    number: int


@dataclass(frozen=True)
class StoreEnd:
    """Store the end of the log in parts, up to a position."""

    stop: int


Step = StoreGap | StoreWhole | StoreEnd


@dataclass
class Storing:
    """What is stored, and what comes next.

    Attributes
    ----------
    segment_size : int
    next : int
        Every segment below this number is stored whole, or lies in a recorded gap.
    first_in_parts : int
        Segments below this number were sealed before the store was in use: they are stored whole
        before the end is stored in parts, because a store with a gap before its end cannot be
        restored.
    stored : int
        The store has what is below this position, apart from recorded gaps.
    """

    segment_size: int
    next: int = 0
    first_in_parts: int = 0
    stored: int = 0

    def begin(self, first_here: int, contents: Contents, compared: int) -> None:
        """Begin with what a store has that was compared with the log up to a position."""
        size, numbers = self.segment_size, contents.numbers
        # What the store's own retention has deleted is not stored again.
        self.next = numbers[0] if numbers else first_here
        end = self.next * size
        if numbers:
            last = numbers[-1]
            end = contents.joined_end(last, size) if last in contents.parts else (last + 1) * size
        # What another writer stored since the comparison is replaced.
        while self.next in contents.sizes and (self.next + 1) * size <= compared:
            self.next += 1
        self.stored = min(end, compared) if numbers else end

    @property
    def kept_position(self) -> int:
        """The position below which the log's segments may be deleted."""
        return self.next * self.segment_size

    def next_step(self, *, first_here: int, durable: int, is_sealed: bool) -> Step | None:
        """Return the next step, or None if nothing is left to store.

        Parameters
        ----------
        first_here : int
            The first segment that the log has.
        durable : int
            The durable end of the log.
        is_sealed : bool
            Whether the segment `next` is sealed.
        """
        size = self.segment_size
        if first_here > self.next:
            return StoreGap(min(self.stored, first_here * size), first_here * size)
        if self.next >= self.first_in_parts and self.stored < durable:
            return StoreEnd(durable)
        if is_sealed and (self.next + 1) * size <= durable:
            return StoreWhole(self.next)
        return None

    def did(self, step: Step) -> None:
        """Note that a step was done."""
        size = self.segment_size
        if isinstance(step, StoreGap):
            self.next = step.stop // size
            self.stored = max(self.stored, step.stop)
        elif isinstance(step, StoreWhole):
            self.next = step.number + 1
            self.stored = max(self.stored, self.next * size)
        else:
            self.stored = max(self.stored, step.stop)

    def skip_damage(self) -> None:
        """Store the end although a sealed segment cannot be stored."""
        self.first_in_parts = 0
