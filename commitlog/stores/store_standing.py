"""StoreRights: whether a log may write to a store."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import replace

from commitlog.base.failpoint import failpoint
from commitlog.errors import FencedError
from commitlog.extension import Lineage, LogFiles, LogView
from commitlog.stores import own_sessions
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.store_session import (
    StoreSession,
    begin_epoch,
    fenced_by_epoch,
    foreign,
    newest_session,
    refuse_unconditional,
)
from commitlog.stores.storing import Standing, standing
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")


def promotion_of(own: Lineage) -> StoreSession:
    """Return the session of the last promotion of a log, without a number."""
    return StoreSession(
        number=0,
        epoch=own.number,
        start=own.promotion.start,
        id=own.rank.id,
        promotion=True,
        epoch_start=own.promotion.start,
    )


class StoreRights(ABC):
    """The right of a log to write to a store.

    Attributes
    ----------
    claim : StoreSession
        What it claims, still without a number.
    """

    claim: StoreSession

    @abstractmethod
    def standing(
        self, files: LogFiles, target: Target, comparison: Comparison
    ) -> tuple[Standing, StoreSession]:
        """Return how the log stands to the newest session of the store; raise if it is fenced."""

    @abstractmethod
    def note(
        self, files: LogFiles, target: Target, newest: StoreSession, claimed: StoreSession
    ) -> None:
        """Note durably what is about to be claimed."""

    @abstractmethod
    def lose(self) -> None:
        """Another writer has the store now."""


class LogRights(StoreRights):
    """The right of an open log to its store: of the directory that began the newest session.

    If another log was promoted, or another writer claims the store, the log fails.
    """

    def __init__(self, log: LogView, store: StoreOptions) -> None:
        self._log = log
        self._path = log.path
        self._store = store
        own = log.epochs.read()
        self.promotion = promotion_of(own)
        self.claim = StoreSession.of(own.number, 0)

    def lose(self) -> None:
        self._log.fail_replaced()

    def note(
        self, files: LogFiles, target: Target, newest: StoreSession, claimed: StoreSession
    ) -> None:
        own = own_sessions.read(files.notes)
        own_sessions.write(files.notes, own.claiming(target.name, newest, claimed.id))
        failpoint("session noted")

    def standing(
        self, files: LogFiles, target: Target, comparison: Comparison
    ) -> tuple[Standing, StoreSession]:
        """Return how the log stands to the newest session of the store; raise if it is fenced."""
        newest, promotion = newest_session(target), self.promotion
        if not self._store.single_writer:
            refuse_unconditional(target, newest)
        how = standing(newest, promotion, own_sessions.read(files.notes))
        if how is Standing.BEHIND or (how is Standing.FOREIGN and promotion.epoch):
            self.lose()
            raise fenced_by_epoch(target, newest.epoch)
        if how is Standing.FOREIGN:
            raise foreign(target, newest.number)
        if how is Standing.ADVANCES:
            start = min(promotion.start, comparison.common())
            end = comparison.end()
            try:
                begin_epoch(target, replace(promotion, start=start))
            except FencedError:
                self.lose()
                raise
            if start < end:
                _logger.warning(
                    "%s: the log was promoted without its store, and goes on there at position "
                    "%d: what the store has from there to position %d is given up",
                    self._path,
                    start,
                    end,
                )
            newest = newest_session(target)
        return how, newest
