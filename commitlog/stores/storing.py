"""Storing: what the service of a store decides, without a store, files, a clock or threads.

`standing` says whether a log may write to a store. `Storing.next_step` says what to store next, and
`Storing.mergeable` which parts become one. The shell, `StoreService` and `StoredTail`, reads the
facts, does the step, reports it, and deletes what is not needed any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from commitlog.stores.contents import Contents
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_session import StoreSession
from commitlog.stores.tail_object import TailObject

PART_MOST = 8 << 20  # bytes of a part, and one frame; also the memory that it takes
MERGED = 16  # parts of one level that become one of the next


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
    """Store the end of the log in parts of one segment, from one position to another."""

    first: int
    stop: int


Step = StoreGap | StoreWhole | StoreEnd


@dataclass
class Storing:
    """What is stored, and what comes next.

    After 16 parts that cover up to 8 MiB, one object of all their bytes is put, then the 16 are
    deleted. So a log that grows by a few bytes a second has some dozens of parts, and each byte is
    stored once for each level.

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
    _parts: list[tuple[int, TailObject]] = field(default_factory=list)  # with their level
    _earlier: list[TailObject] = field(default_factory=list)  # parts that are in no merge

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

    def resume(self, contents: Contents, first_in_parts: int, *, again: bool) -> None:
        """Continue behind the parts that a store has.

        With `again`, segments with parts are stored again from their beginning: the writer of
        those may still merge and delete them.
        """
        size, end = self.segment_size, self.stored
        parts = [part for number in sorted(contents.parts) for part in contents.parts[number]]
        if again and parts:
            end = parts[0].first // size * size
        # A part that counts only in part is no part of a merge.
        known = [] if any(part.stop < part.end for part in parts) else parts
        self._parts = [(0, part) for part in known if part.first < end]
        self._earlier = [part for part in parts if part.first >= end or not known]
        self.first_in_parts = first_in_parts
        self.stored = min(self.stored, max(end, first_in_parts * size))

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
            return StoreEnd(self.stored, min(durable, (self.stored // size + 1) * size))
        if is_sealed and (self.next + 1) * size <= durable:
            return StoreWhole(self.next)
        return None

    def did(self, done: StoreGap | StoreWhole | TailObject) -> None:
        """Note that a step was done; of the end, the part that was put."""
        if isinstance(done, TailObject):
            self.stored = max(self.stored, done.end)
            self._parts.append((0, done))
            return
        self.next = (
            done.number + 1 if isinstance(done, StoreWhole) else done.stop // self.segment_size
        )
        self.stored = max(self.stored, self.next * self.segment_size)

    def skip_damage(self) -> None:
        """Store the end although a sealed segment cannot be stored."""
        self.stored = max(self.stored, self.first_in_parts * self.segment_size)
        self.first_in_parts = 0

    # --- what is not needed any more --------------------------------------------------------------

    def mergeable(self) -> list[TailObject]:
        """Return the last parts, if there are enough of one level in one segment."""
        last = self._parts[-MERGED:]
        if len(last) < MERGED:
            return []
        first, end, size = last[0][1].first, last[-1][1].end, self.segment_size
        same = all(level == last[0][0] and part.digests is not None for level, part in last)
        fits = end - first <= PART_MOST and first // size == (end - 1) // size
        return [part for _, part in last] if same and fits else []

    def merged(self, whole: TailObject) -> list[str]:
        """Note that one object has the bytes of the last parts; return their names."""
        last = self._parts[-MERGED:]
        self._parts[-MERGED:] = [(last[0][0] + 1, whole)]
        return [part.name for _, part in last]

    def drop_covered(self) -> list[str]:
        """Forget the parts of the segment that was stored whole last; return their names."""
        size, last = self.segment_size, self.next - 1
        stored = [*self._earlier, *(part for _, part in self._parts)]
        self._earlier = [part for part in self._earlier if part.first // size > last]
        self._parts = [each for each in self._parts if each[1].first // size > last]
        return [part.name for part in stored if part.first // size == last]
