"""The file `epoch`: under which epochs a log was written, and whether it follows another one.

A log without the file is a primary in epoch 0. The file is replaced whole and durably, before the
first append under a new epoch. It also has the fence of the log: the promotion that it has promised
to, until it has that epoch. Once a log has the file, each recovery after a crash is in it, too:
copies may have records that the crash took from the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from commitlog._kernel.segments import HEADER_SIZE, file_version
from commitlog.base.boot import boot_id
from commitlog.errors import CorruptSegmentError, FencedError, ReplicationError
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory

NAME = "epoch"
_NAME = NAME.encode()
_EPOCHS_LIMIT = 100_000  # some 10 MB
REQUIRE_LIMIT = 64


class Rank(NamedTuple):
    """The order of promotions, and of restarts after them: a later one has the greater rank."""

    number: int = 0
    id: str = ""
    restart: int = 0


@dataclass(frozen=True)
class Epoch:
    """One promotion, or a restart of the promoted log after a crash.

    Attributes
    ----------
    number : int
        1 for the first promotion of a log, and more for each later one; 0 before.
    start : int
        The position at which the log continued.
    id : str
        32 random hexadecimal digits: two promotions to the same number differ in it.
    restart : int
        How many times the log was recovered since its promotion: 0 for the promotion itself.
    """

    number: int
    start: int
    id: str
    restart: int = 0

    @property
    def rank(self) -> Rank:
        return Rank(self.number, self.id, self.restart)


@dataclass(frozen=True)
class Lineage:
    """The epochs of a log, oldest first, the URL of the log that it follows, and its fence.

    Attributes
    ----------
    stored : bool
        Its records are from a store, and the log has not followed since.
    require : int
        How many copies acknowledge a record, at least; 0: the log was never opened with a number.
    changing : bool
        An epoch that the log has promised has another `require`, and may have begun.
    """

    epochs: tuple[Epoch, ...] = field(default=())
    follows: str | None = None
    fence: Rank | None = None
    stored: bool = False
    require: int = 0
    changing: bool = False

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
        return max(self.rank, self.fence or Rank())

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

    def promoted(self, start: int, rank: Rank, require: int = 0) -> Lineage:
        """Return the lineage of this log after its promotion at a position; 0: with the same number
        of required copies.
        """
        epochs = *self.reached(start).epochs, Epoch(rank.number, start, rank.id)
        return Lineage(epochs, require=require or self.require)

    def promising(self, rank: Rank, *, changes: bool) -> Lineage:
        """Return the lineage of this log with the promise of an epoch, which may change `require`;
        the same one if it has promised a higher epoch, or has this one.
        """
        if rank < self.promised or rank == self.rank:
            return self
        return replace(self, fence=rank, changing=self.changing or changes)

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
        adopted = Lineage(of.epochs, url, require=of.require or self.require)
        if self.fence is None or self.fence <= of.rank:
            return adopted
        return replace(adopted, fence=self.fence, changing=self.changing)

    def content(self) -> dict[str, object]:
        fence = {} if self.fence is None else {"fence": _without_zero(self.fence._asdict())}
        epochs = [_without_zero(asdict(epoch)) for epoch in self.epochs]
        others = {"stored": self.stored, "require": self.require, "changing": self.changing}
        set_ones = {name: value for name, value in others.items() if value}
        return {"follows": self.follows, "epochs": epochs, **fence, **set_ones}


def next_rank(known: Iterable[Rank]) -> Rank:
    """Return the rank of a new promotion above all known ones."""
    return Rank(max(rank.number for rank in known) + 1, os.urandom(16).hex())


def parse(content: dict[str, object]) -> Lineage:
    """Check decoded JSON and build a lineage; if it is not one, raise `ValueError`."""
    follows, listed = content.get("follows"), content.get("epochs")
    if not isinstance(follows, str | None) or not isinstance(listed, list):
        raise ValueError("it has no usable list of epochs")
    if len(listed) > _EPOCHS_LIMIT:
        raise ValueError(f"it lists {len(listed)} epochs, and the limit is {_EPOCHS_LIMIT}")
    epochs = tuple(_epoch(each) for each in listed)
    if any(not _follows(*ranks) for ranks in pairwise([Rank(), *(each.rank for each in epochs)])):
        raise ValueError("its epochs are not in the order of their numbers")
    starts = [epoch.start for epoch in epochs]
    if starts != sorted(starts):
        raise ValueError("its epochs do not start in their order")
    fence = content.get("fence")
    promised = None if fence is None else parse_rank(fence)
    require = content.get("require", 0)
    if type(require) is not int or not 0 <= require <= REQUIRE_LIMIT:
        raise ValueError("its number of required copies cannot be read")
    stored, changing = content.get("stored") is True, content.get("changing") is True
    return Lineage(epochs, follows, promised, stored, require, changing)


def _without_zero(content: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name != "restart" or value}


def _follows(earlier: Rank, later: Rank) -> bool:
    """Return whether a log of one rank can go on under another: by a promotion, or a restart."""
    if later.restart:
        return earlier < later and earlier[:2] == later[:2]
    return earlier.number < later.number


def parse_rank(content: object) -> Rank:
    """Check decoded JSON and build a rank; if it is not one, raise `ValueError`."""
    if isinstance(content, dict) and set(content) | {"restart"} == {"number", "id", "restart"}:
        number, name, restart = content["number"], content["id"], content.get("restart", 0)
        numbers = type(number) is int and type(restart) is int
        sound = numbers and type(name) is str and name.isascii() and len(name) <= 32
        if sound and 0 <= number < 1 << 63 and 0 <= restart < 1 << 63:
            return Rank(number, name, restart)
    raise ValueError("a rank in it cannot be read")


def _epoch(content: object) -> Epoch:
    if isinstance(content, dict) and "start" in content:
        rank = parse_rank({name: value for name, value in content.items() if name != "start"})
        start = content["start"]
        named = len(rank.id) == 32 if rank.number else rank.restart and not rank.id
        if type(start) is int and 0 <= start < 1 << 63 and named:
            return Epoch(rank.number, start, rank.id, rank.restart)
    raise ValueError("one of its epochs cannot be read")


def read(directory: LogDirectory) -> Lineage:
    """Read the file; a damaged one is a `CorruptSegmentError`."""
    content = checked_json.read(directory, NAME)
    try:
        return Lineage() if content is None else parse(content)
    except ValueError as error:
        raise CorruptSegmentError(
            f"`{NAME}` is damaged: {error}; restore it from another copy of the log",
            path=os.path.join(directory.path, NAME),
        ) from None


def version(directory: LogDirectory) -> tuple[int, int]:
    """Return a value that differs after each `write`; it takes about a microsecond."""
    return file_version(directory.fd, _NAME)


def past_header(position: int, segment_size: int) -> int:
    """Return a position, or the end of its segment's header if that is greater.

    So the end of a full segment and the start of the next one compare as equal.
    """
    return max(position, position // segment_size * segment_size + HEADER_SIZE)


def copy_id(directory: LogDirectory) -> str:
    """Return a text that differs between copies: this boot and the directory."""
    status = os.fstat(directory.fd)
    return f"{boot_id().hex()}:{status.st_dev}:{status.st_ino}"


def write(directory: LogDirectory, lineage: Lineage) -> None:
    """Replace the file durably; refuse more epochs than a reader of it accepts."""
    if len(lineage.epochs) > _EPOCHS_LIMIT:
        raise ReplicationError(
            f"`{NAME}` has {_EPOCHS_LIMIT} promotions and recoveries, its limit, and is not "
            "changed: remove all copies of this log, then its file `epoch`, open the log, and "
            "follow it again; if it has a store, promote it with the store",
            path=directory.path,
        )
    with directory.translate_errors(f"write `{NAME}`"):
        checked_json.write(directory, NAME, lineage.content())


def note_recovery(directory: LogDirectory, end: int) -> None:
    """Note durably where a log that has copies ends after its recovery, unless it is a copy."""
    found = read(directory)
    if version(directory) != (0, 0) and found.follows is None:
        write(directory, found.restarted(past_header(end, directory.segment_size)))


def refuse_follower(directory: LogDirectory) -> None:
    """Refuse to write to a log that follows another one, or that has promised to."""
    found = read(directory)
    if found.follows is not None:
        raise FencedError(
            f"this log follows {found.follows}, whose records it copies: open it with mode 'r', or "
            "run `commitlog promote` to make it the primary",
            path=directory.path,
        )
    if found.promised > found.rank:
        raise FencedError(
            f"epoch {found.promised.number} of this log was promised to a copy: follow that copy, "
            "or run `commitlog promote` to make this log the primary",
            path=directory.path,
        )
