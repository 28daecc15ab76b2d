"""The events and actions of a promotion: see `Candidate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from commitlog.extension import Lineage, Rank
from commitlog.network.replication.promise import Asked, Standing

Doubt = Literal["promises", "copies", "store", "restored"]


@dataclass(frozen=True)
class Wanted:
    """What the operator asks for.

    Attributes
    ----------
    urls : tuple of str
        The other logs.
    require, copies : int, optional
        Of the log from now on; None: as before.
    waived : frozenset of str
        Doubts that do not refuse the promotion.
    """

    urls: tuple[str, ...] = ()
    require: int | None = None
    copies: int | None = None
    waived: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Own:
    """The log that is to be promoted.

    Attributes
    ----------
    place : str
        Tells its directory from others of this machine.
    restored : str
        Why its directory is in doubt, if it is.
    former : str
        The id that a restored log had, and that it takes the place of.
    behind_store, claimed
        Why its store is in doubt, and the last epoch there.
    """

    lineage: Lineage
    standing: Standing
    place: str
    restored: str = ""
    former: str = ""
    behind_store: str = ""
    claimed: Rank = field(default=Rank())


@dataclass(frozen=True)
class Answer:
    """What another log has said of itself; `durable`: below it, its primary had everything."""

    lineage: Lineage
    standing: Standing
    place: str
    durable: int = 0


@dataclass(frozen=True)
class Described:
    """The answers of all other logs by their URLs, or why there is none."""

    answers: Mapping[str, Answer | str]


@dataclass(frozen=True)
class Promised:
    """What each log that was asked has promised then, and its standing; or why it has not."""

    answers: Mapping[str, tuple[Rank, Standing] | str]


@dataclass(frozen=True)
class Compared:
    """For each log, from which position on its frames are others than those of the own log; None:
    they are the same, as far as both have them. Or why they could not be compared.
    """

    answers: Mapping[str, int | str | None]


@dataclass(frozen=True)
class CaughtUp:
    """The log as it is after a try to copy what only another one had, and why that failed."""

    own: Own
    problem: str = ""


Event = Described | Promised | Compared | CaughtUp


@dataclass(frozen=True)
class Ask:
    """Ask logs for a promise, or tell them what has become of it."""

    asked: Mapping[str, Asked]


@dataclass(frozen=True)
class Compare:
    """Compare the frames of other logs with the own ones, up to a position for each."""

    ends: Mapping[str, int]


@dataclass(frozen=True)
class CatchUp:
    """Copy the records up to a position from another log, which has promised the epoch."""

    url: str
    position: int


@dataclass(frozen=True)
class Begin:
    """Begin the epoch durably; `waived` says what may be lost by it, `asked` whom to tell."""

    lineage: Lineage
    waived: str
    asked: Mapping[str, Asked]


@dataclass(frozen=True)
class Refuse:
    """Refuse the promotion, after the promises were withdrawn."""

    why: str
    asked: Mapping[str, Asked]


Action = Ask | Compare | CatchUp | Begin | Refuse
