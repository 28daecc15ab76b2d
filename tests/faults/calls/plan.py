"""Plan: every case that there is, from the calls that each act makes when nothing fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.faults.calls.causes import causes
from tests.faults.calls.preload import Fault
from tests.faults.calls.worker import Case

# Of the calls of one kind in one act on files of one kind, this many, spread evenly, are tried with
# every errno; the others with the first errno of their kind.
TENTHS = 10


def cases_of(act: str, kinds: Iterable[str]) -> list[Case]:
    """Return the cases of an act that makes calls of these kinds."""
    return [
        Case(act, Fault(kind, nth, cause, forever))
        for kind, count in sorted(Counter(kinds).items())
        for nth in range(count)
        for forever in (False, True)
        for cause in causes(kind, forever=forever)
    ]


def tenth_of(cases: list[Case], tenth: int) -> list[Case]:
    """Return every tenth case; the ten shares are disjoint, and each has cases of every act."""
    return cases[tenth % TENTHS :: TENTHS]
