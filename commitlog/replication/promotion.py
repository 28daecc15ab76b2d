"""Promotion: make a copy, or a log, the primary of the next epoch."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, Self, get_args

from commitlog.base.failpoint import failpoint
from commitlog.base.option import check_switches
from commitlog.base.path import path_of, translate_refusals
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import (
    InvalidOptionError,
    LogLockedError,
    LogNotFoundError,
    ReplicationError,
)
from commitlog.log.commit_log import CommitLog
from commitlog.log.open_log import OpenLog
from commitlog.log.opened import Opened
from commitlog.log.opening import open_for_writing
from commitlog.options import Options
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Epoch, Lineage, Rank, past_header
from commitlog.replication.primary import Access
from commitlog.replication.quorum import Quorum
from commitlog.replication.replica import Standing, standing_of
from commitlog.retention.archiver import Archiver
from commitlog.retention.store import Store
from commitlog.retention.store_epoch import StoreEpoch, highest_epoch
from commitlog.retention.tail_object import read_contents
from commitlog.retention.target import target_of
from commitlog.segment import identity as identities

_logger = logging.getLogger("commitlog.replication")
Doubt = Literal["promises", "copies", "store"]


def promote(
    path: str | os.PathLike[str],
    *,
    others: Iterable[str] = (),
    require: int | None = None,
    force: Doubt | Collection[Doubt] = (),
    token: str | None = None,
    tls_roots: str | None = None,
    plain_text: bool = False,
    timeout: Duration = 5,
    store: Store | None = None,
) -> Epoch:
    """Begin the next epoch of a log durably; a copy can be written from then on.

    The log is recovered first, and continues at its end. If each acknowledged record is on
    `require` copies, every one is in the new epoch, and the old primary cannot acknowledge any
    more: so many of the copies promise the new epoch first that fewer than `require` are left.
    Copies promise if they are followed with ``listen=``, or are served while no program has them
    open.

    Parameters
    ----------
    path : str or path-like
        The log's directory. No process may have it open for writing, and no follower may run.
    others : iterable of str
        The URLs of all other copies of the log, also of those that are out of reach. Without them,
        this copy is the only one.
    require : int, optional
        How many copies have a record when the program treats it as acknowledged. By default as many
        as the log was opened with, by `Replication`, or else 1. Another number than the log was
        opened with changes it: only a log that is not a copy can do that, all of its copies have to
        promise, and for a greater number also have all of its records.
    force : {"promises", "copies", "store"}, or several of them
        Promote although too few copies promise; although another copy has more records; although
        the store has more. What is not named is still refused. Acknowledged records may be lost,
        and without promises the old primary may go on acknowledging; a warning names what was
        waived. A claim of another promotion in the store is not waived.
    token, tls_roots, plain_text
        For the connections to the other copies, as for `follow`.
    timeout : float or str
        How long the other copies may take to answer.
    store : Store, optional
        The log's store. The epoch is claimed there, too: an open log of an earlier epoch with this
        store then fails with `FencedError`. Without it, another promotion may claim the number, and
        this log fails when it is opened with the store.

    Returns
    -------
    Epoch
        The new epoch: its number, and the position at which the log goes on.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path.
    LogLockedError
        A follower or a writer has it open.
    ReplicationError
        Too few copies promise the epoch, or one of them, or the store, has records that this one
        lacks. The log is not promoted.
    FencedError
        Another promotion has just claimed the epoch in the store. The log is not promoted.
    IOFailureError
        The disk or the store cannot be written. The epoch may have begun: promote again.
    InvalidOptionError
        `require` is not the number of some of the copies, or would change the log's and the log is
        a copy; `force` names something else; or two URLs name one copy.
    """
    check_switches(plain_text=plain_text)
    where = path_of(path)
    waived = _waived(force)
    access = Access(token, tls_roots, plain_text)
    quorum = Quorum(others, access, parse_duration(timeout, "timeout"))
    with translate_refusals(where):
        opened = _open(where)
        try:
            new = _promoted(opened, quorum, require, waived, store)
            _begin(new, opened, store)
        except BaseException:
            opened.close()
            raise
        # A whole open and close seals the segments that the copy got without a seal, and marks the
        # log as closed cleanly.
        CommitLog(OpenLog("a", opened, Options(wait_for_log=0))).close()
        return new.epochs[-1]


def _waived(force: object) -> frozenset[str]:
    given = [force] if isinstance(force, str) else force
    known = get_args(Doubt)
    if not isinstance(given, Collection) or not set(given) <= set(known):
        raise InvalidOptionError(f"force must be some of {', '.join(known)}, not {force!r}")
    return frozenset(given)


def _open(where: str) -> Opened:
    try:
        if identities.read_path(where) is None:
            raise identities.missing(where)
    except FileNotFoundError:
        raise LogNotFoundError("there is no log here: check the path", path=where) from None
    opened = open_for_writing(where, "a", Options(wait_for_log=0), follower=True)
    if not opened.exclusive:
        opened.close()
        raise LogLockedError(
            "the log is open for writing: close it there, then promote it", path=where
        )
    return opened


def _promoted(
    opened: Opened,
    quorum: Quorum,
    require: int | None,
    waived: frozenset[str],
    store: Store | None,
) -> Lineage:
    """Take the next epoch at enough copies, this one first; return the log's lineage in it."""
    directory = opened.directory
    own = lineage.read(directory)
    rule = _Rule.of(own, quorum, require)
    end = past_header(opened.end, directory.segment_size)
    standing = standing_of(own, end, directory.segment_size)
    known = quorum.ask(directory.log_uuid, lineage.copy_id(directory))
    claimed, behind_store = (Rank(), "") if store is None else _in_store(opened, store, end)
    rank = lineage.next_rank([own.promised, claimed, *known])
    check = _Check(directory.path, quorum, rule, standing, behind_store, waived)
    check.doubts()
    if quorum.members:
        lineage.write(directory, own.promising(rank, changes=rule.changes))
        failpoint("own fence written")
        quorum.fence(rank, changes=rule.changes)
    if text := check.doubts():
        _logger.warning("%s: promoted by force: %s", directory.path, text)
    if own.follows is None and store is None and not quorum.members:
        _logger.warning(
            "%s was not a copy: its next epoch begins, but no other log is fenced",
            directory.path,
        )
    return own.promoted(end, rank, rule.require)


def _in_store(opened: Opened, store: Store, end: int) -> tuple[Rank, str]:
    """Return the last epoch of the store, and why the promotion should not happen, if so."""
    archiver = Archiver(opened.directory, store)
    archiver.prepare()
    size = opened.directory.segment_size
    stored = read_contents(archiver.target, size).end(size)
    doubts = f"the store has records up to position {stored}" if stored > end else ""
    return Rank(highest_epoch(archiver.target)), doubts


def _begin(new: Lineage, opened: Opened, store: Store | None) -> None:
    """Claim the new epoch in the store, then begin it durably."""
    if store is not None:
        target = target_of(store.target, store.filesystem)
        StoreEpoch(new.number, new.start, new.rank.id).claim(target)
        failpoint("epoch claimed")
    lineage.write(opened.directory, new)
    failpoint("epoch written")


@dataclass(frozen=True)
class _Rule:
    """How many promises a promotion needs, and how many copies acknowledge in its epoch.

    Attributes
    ----------
    require : int
        0: as before.
    needed : int
        How many copies have to promise the epoch, the promoted one among them.
    changes : bool
        The epoch has another `require`, or a promised epoch may have had.
    is_equal : bool
        The copies must have as many records as the promoted one.
    """

    require: int
    needed: int
    changes: bool = False
    is_equal: bool = False

    @classmethod
    def of(cls, own: Lineage, quorum: Quorum, require: int | None) -> Self:
        """Return the rule for a log.

        With the primary there are as many logs as `others`, this one, and the old primary if this
        is a copy. An acknowledged record is on the primary and on `require` copies. So many logs
        less `require` have at least one of these among them. See docs/replication.md.
        """
        logs = len(quorum.members) + (2 if own.follows is not None else 1)
        if require is not None and (whole_of(require) is None or not 1 <= require < max(logs, 2)):
            raise InvalidOptionError(
                f"require must be an int from 1 to the number of copies, {max(logs - 1, 1)}, not "
                f"{require!r}"
            )
        changed = require if own.require and require != own.require else None
        if changed is not None and own.follows is not None:
            raise InvalidOptionError(
                f"{own.require} copies acknowledge the records of this log, and every log must "
                f"promise to change that to {changed}: promote the copy without require, or the "
                "primary, closed, with all of its copies"
            )
        if changed is not None or own.changing:
            return cls(changed or 0, logs, changes=True, is_equal=(changed or 64) > own.require)
        return cls(0, max(logs - (own.require or require or 1), 1))


@dataclass(frozen=True)
class _Check:
    """What a promotion may lose, by the answers of the copies and the store."""

    path: str
    quorum: Quorum
    rule: _Rule
    standing: Standing
    behind_store: str
    waived: frozenset[str]

    def doubts(self) -> str:
        """Return the doubts that are waived; refuse to promote because of another one."""
        quorum, rule, standing = self.quorum, self.rule, self.standing
        found: dict[Doubt, str] = {
            "promises": quorum.missing(rule.needed),
            "copies": quorum.ahead(standing) or (quorum.behind(standing) if rule.is_equal else ""),
            "store": self.behind_store,
        }
        named = {name: text for name, text in found.items() if text}
        if not named.keys() <= self.waived:
            raise ReplicationError(
                f"not promoted: {'; '.join(named.values())}; correct that, or promote with force "
                f"{', '.join(named)}, and lose what is named",
                path=self.path,
            )
        return "; ".join(named.values())
