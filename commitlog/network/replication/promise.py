"""Promise: what a promotion asks of a log, and what it learns from it. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from commitlog.errors import ReplicationError
from commitlog.extension import Lineage, Rank
from commitlog.types import Identity

State = Literal["asked", "begun", "withdrawn"]


class Standing(NamedTuple):
    """How far a log is, for a promotion: the last epoch that it reaches, then its end."""

    reached: Rank
    position: int


class Asked(NamedTuple):
    """What a promotion asks of a log: to promise its epoch, unless another one was promised since.

    Attributes
    ----------
    changes : bool
        The epoch has another `require`.
    before : Rank, optional
        What the log had promised when the promotion compared it; None: anything lower.
    copies : int, optional
        How many copies it counted then.
    state : {"asked", "begun", "withdrawn"}
        Whether the epoch may begin, has begun, or never will.
    """

    rank: Rank
    changes: bool = False
    before: Rank | None = None
    copies: int | None = None
    state: State = "asked"

    def to(self, state: State) -> Asked:
        return self._replace(state=state)

    def answered(self, known: Lineage) -> Lineage:
        """Return the lineage of a log that has this one, and does what is asked."""
        if not known.believes(self.rank):
            raise ReplicationError(known.disbelief(self.rank))
        if self.state == "begun":
            return known.fenced(self.rank)
        if self.state == "withdrawn":
            return known.withdrawing(self.rank)
        # Of its restarts, the last one may be due to this question: it is opened for that.
        promises = [rank[:2] for rank in (self.before, self.rank) if rank is not None]
        if self.before is not None and known.promised[:2] not in promises:
            return known
        if self.copies is not None and known.copies != self.copies:
            return known
        return known.promising(self.rank, changes=self.changes)


Promise = Callable[[Asked], tuple[Rank, Standing]]
"""Has a log promise what is asked; returns what it has promised then, and its standing."""


def standing_of(of: Lineage, end: int, identity: Identity) -> Standing:
    """Return the standing of a log with this lineage and end."""
    position = identity.past_header(end)
    return Standing(of.reached(position).rank, position)


def lost_at(log: Lineage, copy: Lineage, durable: int) -> int | None:
    """Return where a log diverged from a copy, if that is below what the copy knows to have been
    durable at their primary, and no promotion explains it: the log is an older state.
    """
    start = log.parted(copy)
    same = log.promotion.rank == copy.promotion.rank
    return start if start is not None and start < durable and same else None
