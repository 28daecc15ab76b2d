"""Contents: what a store has, by its listing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from commitlog.stores.archived import archived_bases_in
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_session import StoreSession, read_session, sessions_in
from commitlog.stores.tail_object import TailObject, join
from commitlog.stores.target import Target, reading

_LISTINGS_MOST = 3  # if parts are missing: a listing of a store that changes is no snapshot


@dataclass(frozen=True)
class Contents:
    """What a store has, by segment number.

    Attributes
    ----------
    sizes : dict
        The compressed size of each whole segment.
    parts : dict
        The parts of each other segment, in the order in which they are joined.
    part_bytes : dict
        Their compressed sizes.
    stops : dict
        How far the parts of each such segment reach, with those that do not join.
    covered : list of str
        The names of parts that are not needed.
    gaps : list of StoreGap
        What the log deleted before it was stored, ascending.
    """

    sizes: dict[int, int]
    parts: dict[int, list[TailObject]]
    part_bytes: dict[int, int]
    stops: dict[int, int]
    covered: list[str]
    gaps: list[StoreGap]

    @property
    def numbers(self) -> list[int]:
        """Return the segments, ascending."""
        return sorted(self.sizes | self.parts)

    def end(self, segment_size: int) -> int:
        """Return the position at which the last segment ends, also if parts below are missing."""
        if not self.numbers:
            return 0
        last = self.numbers[-1]
        return self.stops[last] if last in self.parts else (last + 1) * segment_size

    def joined_end(self, number: int, segment_size: int) -> int:
        """Return the position up to which the parts of a segment join."""
        parts = self.parts.get(number)
        return parts[-1].stop if parts else number * segment_size

    def hole(self, segment_size: int) -> int | None:
        """Return the first position at which parts of a segment are missing before others."""
        ends = ((self.joined_end(each, segment_size), stop) for each, stop in self.stops.items())
        return min((end for end, stop in ends if end < stop), default=None)

    def between_gaps(self, segment_size: int, before: int | None = None) -> Contents:
        """Return what is behind the last recorded gap, or between the gaps around a position.

        So it is what one log had at one time, without a gap.
        """
        low, high = 0, 1 << 63
        last = max(self.numbers, default=0) * segment_size
        for gap in self.gaps:
            if before is not None and gap.start >= before:
                high = gap.start
                break
            if gap.stop <= last or before is not None:
                low = gap.stop
        kept = {each for each in self.numbers if low <= each * segment_size < high}
        return replace(
            self,
            sizes={each: size for each, size in self.sizes.items() if each in kept},
            parts={each: parts for each, parts in self.parts.items() if each in kept},
            stops={each: min(stop, high) for each, stop in self.stops.items() if each in kept},
        )


def read_contents(
    target: Target, segment_size: int, known: dict[int, StoreSession] | None = None
) -> Contents:
    """List a store, with what is before its gaps. `known` keeps the sessions, which never change,
    for the next call.
    """
    known = {} if known is None else known
    for _ in range(_LISTINGS_MOST):
        with reading(target.name):
            listed = target.sizes()
        contents = _contents(target, listed, segment_size, known)
        if contents.between_gaps(segment_size).hole(segment_size) is None:
            break
    return contents


def _contents(
    target: Target, listed: dict[str, int], size: int, known: dict[int, StoreSession]
) -> Contents:
    sizes = {base // size: listed[name] for name, base in archived_bases_in(listed, size).items()}
    found = [part for name in listed if (part := TailObject.named(name, size)) is not None]
    kept = _before_later_sessions(found, _sessions(target, found, listed, known))
    named = (gap for name in listed if (gap := StoreGap.named(name)) is not None)
    gaps = sorted(gap for gap in named if gap.is_possible(size) and gap.last(size) not in sizes)
    objects: dict[int, list[TailObject]] = defaultdict(list)
    for each in kept:
        objects[each.first // size].append(each)
    parts: dict[int, list[TailObject]] = {}
    stops: dict[int, int] = {}
    still_there = {each.name for each in kept}
    covered = [each.name for each in found if each.name not in still_there]
    for number in sorted(objects):
        joined = [] if number in sizes else join(objects[number], number * size)
        end = (number + 1) * size if number in sizes else joined[-1].stop if joined else 0
        covered += [
            each.name for each in objects[number] if each.stop <= end and each not in joined
        ]
        if number not in sizes:
            parts[number] = joined
            stops[number] = max(each.stop for each in objects[number])
    first = min(sizes, default=0)
    if not any(gap.stop <= first * size for gap in gaps):
        for number in [each for each in parts if each < first]:
            covered += [each.name for each in objects[number]]  # what retention left of a segment
            del parts[number], stops[number]
    part_bytes = {number: sum(listed[part.name] for part in parts[number]) for number in parts}
    return Contents(dict(sorted(sizes.items())), parts, part_bytes, stops, covered, gaps)


def _sessions(
    target: Target,
    parts: Iterable[TailObject],
    listed: Iterable[str],
    known: dict[int, StoreSession],
) -> dict[int, StoreSession]:
    """Return the sessions behind that of the oldest part."""
    oldest = min((part.session for part in parts), default=None)
    if oldest is None:
        return {}
    for number in sessions_in(listed):
        if number > oldest and number not in known:
            session = read_session(target, number)
            if session is not None:
                known[number] = session
    return {number: session for number, session in known.items() if number > oldest}


def _before_later_sessions(
    parts: Iterable[TailObject], sessions: dict[int, StoreSession]
) -> list[TailObject]:
    """Leave out what the writer of a part stored behind the start of a later session."""
    newest = max(sessions, default=0)
    kept = []
    for part in parts:
        if part.session < newest and part.session + 1 not in sessions:
            continue  # the sessions behind it are deleted: nothing of its writer is needed
        starts = [each.start for number, each in sessions.items() if number > part.session]
        stop = min([part.stop, *starts])
        if stop > part.first:
            kept.append(replace(part, stop=stop))
    return kept
