"""Epochs and their ranks, and the logs among which they are promoted, as in the file `epoch`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from commitlog.errors import ReplicationError

NUMBER_LIMIT = 1 << 48  # no log has so many promotions; what is above was never an epoch
EPOCH_GAP = 1000  # epochs that a log may have missed; less than a store lets a claim pass over
NAME_LIMIT = 512  # characters of a member's name
_ID = re.compile(r"[0-9a-z]{32}")  # 16 random bytes, in hexadecimal


class Rank(NamedTuple):
    """The order of promotions, and of restarts after them: a later one has the greater rank."""

    number: int = 0
    id: str = ""
    restart: int = 0

    @classmethod
    def after(cls, known: Iterable[Rank]) -> Rank:
        """Return the rank of a new promotion above all known ones."""
        number = max(rank.number for rank in known) + 1
        if number > NUMBER_LIMIT:
            raise ReplicationError(
                f"no epoch has a number above {NUMBER_LIMIT}, and {number - 1} is known"
            )
        return cls(number, new_id())

    @classmethod
    def parse(cls, content: object) -> Rank:
        """Check decoded JSON and build a rank; if it is not one, raise `ValueError`."""
        if isinstance(content, dict) and set(content) | {"restart"} == {"number", "id", "restart"}:
            number, name, restart = content["number"], content["id"], content.get("restart", 0)
            numbers = type(number) is int and type(restart) is int
            sound = numbers and (name == "" or is_id(name))
            if sound and 0 <= number < 1 << 63 and 0 <= restart < 1 << 63:
                return cls(number, name, restart)
        raise ValueError("a rank in it cannot be read")


class Member(NamedTuple):
    """A log of one content: a primary, or a copy that may have acknowledged records.

    The id is random, and made anew for a directory that was restored or cloned; the name is that of
    its follower, empty for a log that never followed.
    """

    id: str
    name: str = ""

    @classmethod
    def new(cls) -> Member:
        """Return a member with a random id, for a log that never followed."""
        return cls(new_id())

    @classmethod
    def parse(cls, content: object) -> Member:
        """Check decoded JSON and build a member; if it is not one, raise `ValueError`."""
        if isinstance(content, dict) and is_id(content.get("id")):
            name = content.get("name", "")
            if type(name) is str and len(name) <= NAME_LIMIT:
                return cls(content["id"], name)
        raise ValueError("one of its members cannot be read")


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

    @classmethod
    def parse(cls, content: object) -> Epoch:
        """Check decoded JSON and build an epoch; if it is not one, raise `ValueError`."""
        if isinstance(content, dict) and "start" in content:
            rank = Rank.parse({name: value for name, value in content.items() if name != "start"})
            start = content["start"]
            named = rank.id if rank.number else rank.restart and not rank.id
            if type(start) is int and 0 <= start < 1 << 63 and named:
                return cls(rank.number, start, rank.id, rank.restart)
        raise ValueError("one of its epochs cannot be read")


def new_id() -> str:
    """Return a random id, of a promotion or a member."""
    return os.urandom(16).hex()


def is_id(text: object) -> bool:
    """Return whether a text can be the id of a promotion or of a log."""
    return type(text) is str and _ID.fullmatch(text) is not None


def parse_ranks(content: object, limit: int) -> tuple[Rank, ...]:
    """Check decoded JSON and build ranks; if they are none, raise `ValueError`."""
    if isinstance(content, list) and len(content) <= limit:
        return tuple(Rank.parse(each) for each in content)
    raise ValueError("its earlier promises cannot be read")


def parse_members(content: object, limit: int) -> tuple[Member, ...]:
    """Check decoded JSON and build members; if they are none, raise `ValueError`."""
    if isinstance(content, list) and len(content) <= limit:
        found = tuple(Member.parse(each) for each in content)
        if len({member.id for member in found}) == len(found):
            return found
    raise ValueError("its members cannot be read")


def parse_count(content: dict[str, object], name: str, limit: int) -> int:
    """Return a number of copies from decoded JSON; if it is none, raise `ValueError`."""
    found = content.get(name, 0)
    if type(found) is not int or not 0 <= found <= limit:
        what = "required copies" if name == "require" else name
        raise ValueError(f"its number of {what} cannot be read")
    return found
