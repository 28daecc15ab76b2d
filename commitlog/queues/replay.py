"""Replay: what the records of a queue's state log say together. No I/O.

The log whose jobs these are may have been cut since, or be another copy: it then has the same
records below some place, and others above. `trusted_end` finds that place by fingerprints, and
`settle` returns what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from commitlog.queues import notes
from commitlog.queues.notes import Base, Place, Print, Tried
from commitlog.queues.spans import Span, Spans


class Settled(NamedTuple):
    """What is left of a queue.

    Attributes
    ----------
    scan : int
        Where the scan of the log goes on.
    gaps : list of Span
        The spans below `scan` whose jobs are not done.
    tried : dict
        What is known of jobs that were handed out, by their positions.
    prints : list of Print
        The fingerprints that the log still has.
    again : list of Place
        Jobs that were dead letters, and are to be done again.
    letters : set of int
        Positions of jobs that are not done, although there is a letter.
    """

    scan: int
    gaps: list[Span]
    tried: dict[int, Tried]
    prints: list[Print]
    again: list[Place]
    letters: set[int]


class Replay:
    """Take records in their order; the result does not depend on those below the last base.

    Attributes
    ----------
    dead : dict
        The spans of the jobs that became dead letters behind the base, by their positions.
    is_clean : bool
        Nothing was handed out after the last record.
    """

    def __init__(self, start: int, *, is_clean: bool = False) -> None:
        self.is_clean = is_clean
        self.dead: dict[int, list[Span]] = {}
        self.letters: set[int] = set()
        self._start = start
        self._scan = start
        self._done = Spans()
        self._done.add(0, start)
        self._tried: dict[int, Tried] = {}
        self._prints: list[Print] = []
        self._again: dict[int, Place] = {}

    def begin(self, base: Base) -> None:
        """Begin at a base: then take all records from its `since` on."""
        self.is_clean = base.is_clean
        self._scan = base.scan
        self._done = Spans()
        self._done.add(0, base.scan)
        for tried in base.jobs:
            self._done.remove(tried.place.start, tried.place.stop)
            if tried.order:
                self._tried[tried.place.position] = tried
        self._prints = list(base.prints)

    def take(self, kind: int, value: bytes) -> None:
        """Take a record; a `notes.NoteError` says that it is none of a queue."""
        if kind in (notes.DONE, notes.DEAD):
            self.is_clean = False
            top, spans = notes.decode_done(value)
            self._prints.append(top)
            if kind == notes.DEAD:
                self.dead[top.position] = spans
            for start, stop in spans:
                self._done.add(start, stop)
        elif kind == notes.TRIED:
            self.is_clean = False
            tried = notes.decode_tried(value)
            known = self._tried.get(tried.place.position)
            if known is None or known.order <= tried.order or known.place != tried.place:
                self._tried[tried.place.position] = tried
        elif kind == notes.AGAIN:
            self.is_clean = False
            place = notes.decode_again(value)
            self._done.remove(place.start, place.stop)
            self._tried.pop(place.position, None)
            self.dead.pop(place.position, None)
            self._again[place.position] = place
        elif kind == notes.OPENED:
            self.is_clean = False
        else:
            raise notes.NoteError(f"there is no note of type {kind}")

    def wants_letter(self, position: int) -> bool:
        """Return whether a job is a dead letter behind the base, or is not done."""
        return position in self.dead or position not in self._done

    def compare(self, letters: set[int], put_back: Iterable[Place]) -> None:
        """Take what the letters say, if they were copied at another moment than the notes: a job is
        not dead without a letter, and one whose letter was put back later is not done.
        """
        self.letters = letters
        for position, spans in self.dead.items():
            for start, stop in spans if position not in letters else ():
                self._done.remove(start, stop)
        for place in put_back:
            self.take(notes.AGAIN, notes.encode_again(place))

    @property
    def noted_end(self) -> int:
        """Where the highest note ends."""
        return max(self._done.end, self._scan)

    def agrees(self, scan: int, positions: Iterable[int]) -> bool:
        """Return whether leases with this scan and these unfinished jobs are not older."""
        return self.noted_end <= scan and not any(each in self._done for each in positions)

    def trusted_end(self, has: Callable[[Print], bool]) -> int:
        """Return the end of what the log has in common with the one that was noted.

        `has` says whether the log has the record of a fingerprint, or has deleted it. Logs differ
        from one place on, so a binary search finds it with few reads.
        """
        prints = sorted(set(self._prints))
        low, high = 0, len(prints)  # those below `low` are there, and not those from `high` on
        while low < high:
            middle = (low + high) // 2
            if has(prints[middle]):
                low = middle + 1
            else:
                high = middle
        self._prints = prints[:low]
        if low == len(prints):
            return self.noted_end
        return max(prints[low - 1].stop if low else 0, self._start)

    def settle(self, end: int, has: Callable[[Print], bool]) -> Settled:
        """Return what counts of the notes below `end`, and of jobs above it that the log has."""
        done, scan = self._done, min(end, self.noted_end)
        tried = {}
        for position, each in self._tried.items():
            place = each.place
            if place.stop <= end or has(Print(position, place.stop, place.print)):
                tried[position] = each
                scan = max(scan, place.stop)
        done.remove(end, 1 << 62)
        left = {position: each for position, each in tried.items() if position not in done}
        again = [place for position, place in self._again.items() if position not in done]
        return Settled(scan, done.gaps(self._start, scan), left, self._prints, again, self.letters)
