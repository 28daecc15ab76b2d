"""Promotion: make a copy, or a log, the primary of the next epoch."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import get_args

from commitlog.base.failpoint import failpoint
from commitlog.base.option import check_switches
from commitlog.base.path import path_of, translate_refusals
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    ReplicationError,
)
from commitlog.extension import Epoch, Lineage, LockedLog, Member, Rank
from commitlog.network.remote.wire import FAILURES
from commitlog.network.replication.candidate import Candidate
from commitlog.network.replication.catching_up import catch_up
from commitlog.network.replication.primary import Access
from commitlog.network.replication.promise import Asked, standing_of
from commitlog.network.replication.promotion_steps import (
    Ask,
    Begin,
    CatchUp,
    CaughtUp,
    Compare,
    Compared,
    Described,
    Doubt,
    Own,
    Promised,
    Refuse,
    Wanted,
)
from commitlog.network.replication.quorum import Quorum
from commitlog.stores.store import Store
from commitlog.stores.store_promotion import StoreAtPromotion

_RESTORED = (
    "the directory is another one than before: it was restored from a backup, cloned, or moved to "
    "another file system, so it may lack promises and records that it acknowledged"
)
_logger = logging.getLogger("commitlog.replication")


def promote(
    path: str | os.PathLike[str],
    *,
    others: Iterable[str] = (),
    require: int | None = None,
    copies: int | None = None,
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
        this copy is the only one. If one of them has records of the last epoch that this one
        lacks, they are copied from it once it has promised; so a busy primary need not be stopped.
    require : int, optional
        How many copies have a record when the program treats it as acknowledged. By default as many
        as the log was opened with, by `Replication`, or else 1. Another number than the log was
        opened with changes it: only a log that is not a copy can do that, all of its copies have to
        promise, and for a greater number also have all of its records.
    copies : int, optional
        How many copies the log has, this one among them. By default as many as it counts, or as
        are named with this one, whichever is more. Pass it if some of the copies that it counts
        are gone for good.
    force : {"promises", "copies", "store", "restored"}, or several of them
        Promote although too few copies promise; although another copy has more records, which
        cannot be copied from it; although the store has more; although the directory was restored
        from a backup or cloned. What is not named is still refused. Acknowledged records may be
        lost, and without promises the old primary may go on acknowledging; a warning names what was
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
        Too few copies promise the epoch and have the same records, or one of them, or the store,
        has records that this one lacks and cannot get. The log is not promoted, and the promises
        are withdrawn.
    FencedError
        Another promotion has just claimed the epoch in the store. The log is not promoted.
    IOFailureError
        The disk or the store cannot be written. The epoch may have begun: promote again.
    InvalidOptionError
        `require` is not the number of some of the copies, or would change the log's and the log is
        a copy; `copies` is fewer than are named; `force` names something else; or two URLs name one
        copy.
    """
    check_switches(plain_text=plain_text)
    where = path_of(path)
    waived = _waived(force)
    access = Access(token, tls_roots, plain_text)
    quorum = Quorum(others, access, parse_duration(timeout, "timeout"), where)
    wanted = Wanted(quorum.urls, require, copies, waived)
    with translate_refusals(where):
        promotion = _Promotion(where, quorum, wanted, store)
        try:
            new = promotion.run()
        except BaseException:
            promotion.log.close()
            raise
        promotion.log.finish()  # seals the segments that the copy got without a seal
        return new.epochs[-1]


def _waived(force: object) -> frozenset[str]:
    given = [force] if isinstance(force, str) else force
    known = get_args(Doubt)
    if not isinstance(given, Collection) or not set(given) <= set(known):
        raise InvalidOptionError(f"force must be some of {', '.join(known)}, not {force!r}")
    return frozenset(given)


class _Promotion:
    """Do what a `Candidate` decides.

    Attributes
    ----------
    log : LockedLog
        The log; closed while it catches up.
    """

    def __init__(self, where: str, quorum: Quorum, wanted: Wanted, store: Store | None) -> None:
        self._where = where
        self._quorum = quorum
        self._wanted = wanted
        self._store = store
        self._member = ""
        self._promised: Mapping[str, Asked] = {}  # what is withdrawn if the epoch never begins
        self.log = LockedLog.open(where)

    def run(self) -> Lineage:
        """Begin the next epoch, and return the log's lineage in it; or raise."""
        try:
            return self._run()
        except BaseException:
            if self._promised:
                self._tell({url: each.to("withdrawn") for url, each in self._promised.items()})
            raise

    def _run(self) -> Lineage:
        candidate = Candidate(self._own(), self._wanted)
        uuid = self.log.identity.uuid
        action = candidate.on(Described(self._quorum.describe(uuid)))
        while True:
            match action:
                case Ask():
                    self._promised = action.asked
                    action = candidate.on(Promised(self._quorum.ask(action.asked)))
                    failpoint("promises asked")
                case Compare():
                    action = candidate.on(Compared(self._quorum.compare(self.log, action.ends)))
                    failpoint("records compared")
                case CatchUp():
                    action = candidate.on(self._catch_up(action))
                case Refuse():
                    self._promised = action.asked
                    raise ReplicationError(action.why, path=self._where)
                case Begin():
                    return self._begin(action)

    def _own(self) -> Own:
        epochs = self.log.epochs
        known, restored = epochs.read(), epochs.is_restored()
        former = known.member if restored else ""
        if restored or not known.member:  # an id that no other log counts
            self._member = self._member or Member.new().id
            kept = tuple(each for each in known.members if each.id != former)
            known = replace(known, member=self._member, members=kept)
        end = self.log.identity.past_header(self.log.end)
        standing = standing_of(known, end, self.log.identity)
        doubt = _RESTORED if restored else ""
        claimed, behind = (Rank(), "") if self._store is None else self._in_store(end)
        place = epochs.copy_id()
        return Own(known, standing, place, doubt, former, behind, claimed)

    def _in_store(self, end: int) -> tuple[Rank, str]:
        """Return the last epoch of the store, and why the promotion should not happen, if so."""
        assert self._store is not None
        found = StoreAtPromotion.of(self._where, self._store, end)
        return Rank(found.epoch), found.doubt

    def _catch_up(self, action: CatchUp) -> CaughtUp:
        problem = ""
        self.log.close()
        try:
            other, limit_s = self._quorum.of(action.url), self._quorum.timeout_s
            catch_up(self._where, other, action.position, limit_s)
            failpoint("caught up")
        except CommitLogError as error:
            problem = error.message
        except FAILURES as error:
            problem = str(error)
        self.log = LockedLog.open(self._where)
        return CaughtUp(self._own(), problem)

    def _begin(self, action: Begin) -> Lineage:
        """Claim the new epoch in the store, begin it durably, then tell who has promised it."""
        new = action.lineage
        if action.waived:
            _logger.warning("%s: promoted by force: %s", self._where, action.waived)
        if self._store is not None:
            found = StoreAtPromotion.of(self._where, self._store, new.start)
            found.claim(new.number, new.start, new.rank.id)
            failpoint("epoch claimed")
            found.begin()
        if self._store is None and not self._wanted.urls and new.copies == 0:
            _logger.warning(
                "%s was not a copy: its next epoch begins, but no other log is fenced", self._where
            )
        self._promised = {}  # it may have begun from here on
        self.log.epochs.write(new)
        failpoint("epoch written")
        self._tell(action.asked)
        return new

    def _tell(self, asked: Mapping[str, Asked]) -> None:
        """Tell the logs that were asked; one that is out of reach stays as it is."""
        for url, answer in self._quorum.ask(asked).items():
            if isinstance(answer, str):
                _logger.info("%s does not know of the promotion: %s", url, answer)
