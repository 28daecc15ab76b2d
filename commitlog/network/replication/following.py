"""Following: what a follower decides, without I/O.

`Follower`, `meeting` and `catching_up` report what happened to a method, and do what it returns.
Before a record is copied, the log is described (`described`), its frames are compared with those of
the copy (`compared`), and the log counts the copy (`joined`); each may end the meeting.
"""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.errors import CommitLogError, FencedError, IOFailureError, ReplicationError
from commitlog.extension import Lineage, Rank
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication.promise import lost_at
from commitlog.types import Identity

_RETRY_S, _RETRY_LONGEST_S = 0.05, 2.0


@dataclass(frozen=True)
class Copy:
    """The copy: where it ends durably, and below which position its primary had all of it."""

    identity: Identity
    lineage: Lineage
    end: int = 0
    durable: int = 0


@dataclass(frozen=True)
class Log:
    """A log as its server describes it. If it is a copy, its primary was durable up to `durable`;
    `place` tells its directory from others of its machine.
    """

    identity: Identity
    lineage: Lineage
    first: int
    end: int
    durable: int = 0
    place: str = ""


@dataclass(frozen=True)
class Cut:
    """Cut the records of the copy from a position on, and meet again."""

    position: int


@dataclass(frozen=True)
class Leave:
    """Copy nothing now. Tell the log of a later epoch, if one is given; then raise the error, or
    connect again later.
    """

    error: Exception | None = None
    told: Rank | None = None


class Following:
    """Decide how a copy and the log that it follows go on.

    Parameters
    ----------
    url : str
        The log's.
    path : str
        The directory of the copy.
    """

    def __init__(self, url: str, path: str) -> None:
        self._url = url
        self._path = path
        self._pause_s = _RETRY_S

    # --- connections ------------------------------------------------------------------------------

    def failed(self, error: Exception) -> CommitLogError | None:
        """Return the error that ends the follower; None if it connects again."""
        if isinstance(error, CommitLogError):
            return error
        if isinstance(error, RefusedError):
            return ReplicationError(f"{self._url} refuses to be followed: {error}")
        if isinstance(error, OSError):
            return None
        return IOFailureError(f"the follower failed: {error!r}; follow again")

    def pause_s(self, *, has_copied: bool) -> float:
        """Return how long to wait after a connection before the next one."""
        pause_s = _RETRY_S if has_copied else self._pause_s
        self._pause_s = min(2 * pause_s, _RETRY_LONGEST_S)
        return pause_s

    # --- the meeting ------------------------------------------------------------------------------

    def refusal(self, copy: Copy, log: Log) -> CommitLogError | None:
        """Return why the log in a directory may not become a copy of another one."""
        known, theirs = copy.lineage, log.lineage
        if copy.identity.uuid != log.identity.uuid:
            return ReplicationError(
                f"{self._url} is another log than the one in this directory: choose an empty or a "
                "new directory",
                path=self._path,
            )
        if known.follows is None and known.rank >= theirs.rank:
            return FencedError(
                f"the log in this directory is a primary of epoch {known.number}, and "
                f"{self._url} has epoch {theirs.number}: follow a log of a higher epoch",
                path=self._path,
            )
        return None

    def described(self, copy: Copy, log: Log, *, waits: bool) -> Cut | Leave | None:
        """Compare identities, epochs and ends; None: compare the frames.

        If the follower `waits`, a primary of a lower epoch than its copy has promised is no error:
        the new primary may come to the same address.
        """
        known, theirs = copy.lineage, log.lineage
        promised = known.promised
        if copy.identity.uuid != log.identity.uuid:
            return Leave(self.refusal(copy, log))
        if promised <= theirs.rank:
            return self.fitted(copy, log)
        # A promise alone fences no primary: its epoch may never begin.
        told = promised if known.rank > theirs.rank or known.begun else None
        if waits and promised > known.rank:
            return Leave(told=told)
        if promised[:2] == theirs.rank[:2]:
            return self._fenced(
                f"this copy knows a recovery of its primary that {self._url} does not: the "
                "server has an older state of the log; promote the copy, or restore the server",
                told=told,
            )
        return self._fenced(
            f"this copy has promised epoch {promised.number}, and {self._url} does not "
            f"know it, but has epoch {theirs.number}: follow the log that was promoted last",
            told=told,
        )

    def fitted(self, copy: Copy, log: Log) -> Cut | Leave | None:
        """Compare only the epochs and ends."""
        parted = copy.lineage.parted(log.lineage)
        if parted is not None and copy.end > parted:
            start = lost_at(log.lineage, copy.lineage, copy.durable)
            if start is None:
                return Cut(parted)  # the log has a later epoch: its records are kept
            return self._fenced(
                f"{self._url} recovered at {start}, and had all records below {copy.durable} "
                "durably before: it has an older state, restored from a backup or a snapshot. "
                "Promote this copy; or, to lose what only it has, remove it and follow again",
                start,
            )
        end = max(log.end, log.first)
        if copy.end > copy.identity.past_header(end):
            return self._fenced(
                f"this copy ends at {copy.end}, and {self._url} at {end}: the server has "
                "lost records; promote the copy, or restore the server",
                end,
            )
        return None

    def compared(self, position: int | None) -> Leave | None:
        """Take the position from which on the frames differ, or None; None: join the log."""
        if position is None:
            return None
        return self._fenced(
            f"this copy and {self._url} have different records from position {position} on, and "
            "the same epochs: one of the two was restored from a backup or is a clone. Keep the "
            "log that is right: promote this copy, or remove it and follow again",
            position,
        )

    def joined(self, log: Log, counting: Lineage) -> Leave | None:
        """Take the lineage of the log that counts the copy now; None: adopt it."""
        if counting.rank == log.lineage.rank:
            return None
        return Leave(ConnectionError("the log has another epoch by now"))

    def _fenced(self, why: str, position: int | None = None, told: Rank | None = None) -> Leave:
        return Leave(FencedError(why, path=self._path, position=position), told)
