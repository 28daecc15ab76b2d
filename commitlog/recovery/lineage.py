"""Lineage: under which epochs a log was written, and whether it follows another one. No I/O.

`Epochs` reads and writes it. It also has the fence of the log: the promotion that it has promised
to, until it has that epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

from commitlog.errors import ReplicationError
from commitlog.recovery.epoch import (
    EPOCH_GAP,
    NUMBER_LIMIT,
    Epoch,
    Member,
    Rank,
    is_id,
    parse_count,
    parse_members,
    parse_ranks,
)

__all__ = ["Epoch", "Lineage", "Member", "Rank"]

_PROMISES_KEPT = 8  # of promotions at the same time
_RESTART_GAP = 1 << 20  # recoveries that a log may have missed


@dataclass(frozen=True)
class Lineage:
    """The epochs of a log, oldest first, the URL of the log that it follows, and its fence.

    Attributes
    ----------
    fence : Rank, optional
        The promotion that the log has promised to, until it has that epoch.
    earlier : tuple of Rank
        Lower promotions that it has promised to before, ascending, of which none has begun yet.
    begun : bool
        The log knows that the epoch of its fence has begun.
    stored : bool
        Its records are from a store, and the log has not followed since.
    require : int
        How many copies acknowledge a record, at least; 0: the log was never opened with a number.
    changing : bool
        An epoch that the log has promised has another `require`, and may have begun.
    member : str
        The log's own id; empty until its file is written.
    members : tuple of Member
        The logs that are counted, with this one.
    copies : int
        How many copies there are at least; more than `members` shows, if a promotion had to count
        some that did not answer.
    """

    NUMBER_LIMIT: ClassVar[int] = NUMBER_LIMIT  # of a peer's epochs
    EPOCHS_LIMIT: ClassVar[int] = 100_000  # some 10 MB
    REQUIRE_LIMIT: ClassVar[int] = 64
    COPIES_LIMIT: ClassVar[int] = 64

    epochs: tuple[Epoch, ...] = field(default=())
    follows: str | None = None
    fence: Rank | None = None
    stored: bool = False
    require: int = 0
    changing: bool = False
    begun: bool = False
    earlier: tuple[Rank, ...] = field(default=())
    member: str = ""
    members: tuple[Member, ...] = field(default=())
    copies: int = 0

    @property
    def number(self) -> int:
        return self.rank.number

    @property
    def rank(self) -> Rank:
        """The rank of the current epoch."""
        return self.epochs[-1].rank if self.epochs else Rank()

    @property
    def promised(self) -> Rank:
        """The highest promotion that the log knows: it never follows a lower one."""
        fence = self.fence
        return self.rank if fence is None or not self.believes(fence) else max(self.rank, fence)

    @property
    def is_replicated(self) -> bool:
        """Whether the log is a copy, or has copies."""
        return self.follows is not None or self.copies > 0

    def believes(self, rank: Rank) -> bool:
        """Return whether a rank from elsewhere can be one of this log: not too far ahead.

        Each promotion takes the next number, so an epoch far above the known one was invented.
        Without this bound, one message could fence a log above every number that a promotion can
        take.
        """
        known = self.rank
        return (
            rank.number <= min(known.number + EPOCH_GAP, NUMBER_LIMIT)
            and rank.restart <= known.restart + _RESTART_GAP
        )

    def disbelief(self, rank: Rank) -> str:
        """Return the text of an error for a rank that the log does not believe."""
        return (
            f"epoch {rank.number} with restart {rank.restart} is too far above epoch {self.number} "
            f"with restart {self.rank.restart} of this log, so no promotion has made it"
        )

    @property
    def start(self) -> int:
        """Where the current epoch starts, or goes on after its last restart."""
        return self.epochs[-1].start if self.epochs else 0

    @property
    def promotion(self) -> Epoch:
        """The last promotion."""
        promotions = [epoch for epoch in self.epochs if not epoch.restart]
        return promotions[-1] if promotions else Epoch(0, 0, "")

    def reached(self, end: int) -> Lineage:
        """Return the lineage without epochs that start above the log's end, and without a restart
        from which on the log has no record.

        A copy adopts an epoch before it has the records below the epoch's start.
        """
        epochs = (each for each in self.epochs if each.start < end + (not each.restart))
        return replace(self, epochs=tuple(epochs))

    def parted(self, other: Lineage) -> int | None:
        """Return where this log diverged from another one, or None if it did not.

        If this log is from a store, restarts of the other one do not count: a store has flushed
        records only, and no restart takes these.
        """
        theirs = (each for each in other.epochs if not (self.stored and each.restart))
        apart = set(self.epochs) ^ set(theirs)
        return min((epoch.start for epoch in apart), default=None)

    def promoted(
        self,
        start: int,
        rank: Rank,
        require: int = 0,
        *,
        others: Iterable[Member] = (),
        copies: int = 0,
    ) -> Lineage:
        """Return the lineage of this log after its promotion at a position, among other logs, and
        with at least so many copies. `require` of 0: the same number as before.
        """
        epochs = *self.reached(start).epochs, Epoch(rank.number, start, rank.id)
        named = {each.id: each for each in others if each.id != self.member}
        own = [each for each in self.members if each.id == self.member] or [Member(self.member)]
        return Lineage(
            epochs,
            require=require or self.require,
            member=self.member,
            members=(*own, *named.values()) if self.member else (),
            copies=max(copies, len(named)),
        )

    def promising(self, rank: Rank, *, changes: bool) -> Lineage:
        """Return the lineage of this log with the promise of an epoch, which may change `require`;
        the same one if it has promised a higher epoch, or has this one.
        """
        if rank < self.promised or rank == self.rank:
            return self
        if rank == self.fence:
            return replace(self, changing=self.changing or changes)
        # What has begun is not withdrawn, so nothing comes back that is below it.
        kept = () if self.begun else (*self.earlier, *([self.fence] if self.fence else []))
        known = tuple(each for each in kept if each > self.rank)[-_PROMISES_KEPT:]
        changing = self.changing or changes
        return replace(self, fence=rank, earlier=known, changing=changing, begun=False)

    def withdrawing(self, rank: Rank) -> Lineage:
        """Return the lineage of this log without the promise of an epoch that never begins, and
        with the promises that it has given beside it.
        """
        earlier = tuple(each for each in self.earlier if each != rank)
        if self.fence != rank or self.begun:
            return replace(self, earlier=earlier)
        return replace(self, fence=earlier[-1] if earlier else None, earlier=earlier[:-1])

    def fenced(self, rank: Rank) -> Lineage:
        """Return the lineage of a log that has learned that an epoch has begun elsewhere."""
        if rank <= self.rank or rank < self.promised:
            return self
        return replace(self, fence=rank, earlier=(), begun=True)

    def joined(self, new: Member) -> Lineage:
        """Return the lineage of a log that counts one more copy. Another copy of its name was there
        before it, and is not counted any more.
        """
        if new in self.members or not self.member:
            return self
        kept = [each for each in self.members if each.id != new.id and each.name != new.name]
        own = [] if any(each.id == self.member for each in kept) else [Member(self.member)]
        members = (*own, *kept, new)
        if len(members) > self.COPIES_LIMIT + 1:
            raise ReplicationError(
                f"the log counts {self.COPIES_LIMIT} copies, its limit: promote it with copies=, "
                "--copies, to forget those that are gone"
            )
        return replace(self, members=members, copies=max(self.copies, len(members) - 1))

    def restarted(self, start: int) -> Lineage:
        """Return the lineage of this log after its recovery with an end at a position.

        Copies may have records above it, which this log has lost in the crash. Earlier restarts
        that start there or later are left out: a copy that has one is cut at the new start.
        """
        rank = self.rank
        known = [
            replace(each, start=min(each.start, start))
            for each in self.epochs
            if each.start < start or not each.restart
        ]
        epoch = Epoch(rank.number, start, rank.id, rank.restart + 1)
        return replace(self, epochs=(*known, epoch))

    def adopted(self, of: Lineage, url: str) -> Lineage:
        """Return the lineage of this log when it follows another one."""
        adopted = Lineage(
            of.epochs,
            url,
            require=of.require or self.require,
            member=self.member,
            members=of.members,
            copies=of.copies,
        )
        if self.promised <= of.rank:
            return adopted
        earlier = tuple(each for each in self.earlier if each > of.rank)
        return replace(
            adopted,
            fence=self.fence,
            changing=self.changing,
            begun=self.begun,
            earlier=earlier,
        )

    def content(self) -> dict[str, object]:
        fence = {} if self.fence is None else {"fence": _without_zero(self.fence._asdict())}
        epochs = [_without_zero(asdict(epoch)) for epoch in self.epochs]
        others = {
            "stored": self.stored,
            "require": self.require,
            "changing": self.changing,
            "begun": self.begun,
            "earlier": [_without_zero(each._asdict()) for each in self.earlier],
            "member": self.member,
            "members": [each._asdict() for each in self.members],
            "copies": self.copies,
        }
        set_ones = {name: value for name, value in others.items() if value}
        return {"follows": self.follows, "epochs": epochs, **fence, **set_ones}

    @classmethod
    def parse(cls, content: dict[str, object]) -> Lineage:
        """Check decoded JSON and build a lineage; if it is not one, raise `ValueError`."""
        follows, listed = content.get("follows"), content.get("epochs")
        if not isinstance(follows, str | None) or not isinstance(listed, list):
            raise ValueError("it has no usable list of epochs")
        if len(listed) > cls.EPOCHS_LIMIT:
            raise ValueError(f"it lists {len(listed)} epochs, and the limit is {cls.EPOCHS_LIMIT}")
        epochs = tuple(Epoch.parse(each) for each in listed)
        if any(
            not _follows(*ranks) for ranks in pairwise([Rank(), *(each.rank for each in epochs)])
        ):
            raise ValueError("its epochs are not in the order of their numbers")
        starts = [epoch.start for epoch in epochs]
        if starts != sorted(starts):
            raise ValueError("its epochs do not start in their order")
        fence = content.get("fence")
        promised = None if fence is None else Rank.parse(fence)
        require = parse_count(content, "require", cls.REQUIRE_LIMIT)
        member = content.get("member", "")
        if member != "" and not is_id(member):
            raise ValueError("its id cannot be read")
        return cls(
            epochs,
            follows,
            promised,
            stored=content.get("stored") is True,
            require=require,
            changing=content.get("changing") is True,
            begun=content.get("begun") is True,
            earlier=parse_ranks(content.get("earlier", []), _PROMISES_KEPT),
            member=str(member),
            members=parse_members(content.get("members", []), cls.COPIES_LIMIT + 1),
            copies=parse_count(content, "copies", cls.COPIES_LIMIT),
        )


def _without_zero(content: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name != "restart" or value}


def _follows(earlier: Rank, later: Rank) -> bool:
    """Return whether a log of one rank can go on under another: by a promotion, or a restart."""
    if later.restart:
        return earlier < later and earlier[:2] == later[:2]
    return earlier.number < later.number
