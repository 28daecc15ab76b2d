"""What a promotion asks of a store, and claims there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from commitlog.extension import LogFiles
from commitlog.stores.archiver import Archiver
from commitlog.stores.marker import place_of
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_options import StoreOptions, refuse_unsafe
from commitlog.stores.store_session import (
    StoreSession,
    begin_epoch,
    newest_session,
    refuse_unconditional,
)
from commitlog.stores.target import target_of


@dataclass(frozen=True)
class StoreAtPromotion:
    """A store before a promotion.

    Attributes
    ----------
    path : str
        Of the log.
    epoch : int
        Its highest epoch.
    end : int
        Where its last record ends.
    common : int
        The position up to which it has the records of the log that is promoted.
    """

    path: str
    store: StoreOptions
    epoch: int
    end: int
    common: int

    @classmethod
    def of(cls, path: str, store: StoreOptions, log_end: int) -> Self:
        """Compare a store with the log at a path, which ends at a position.

        Raises
        ------
        LogExistsError
            The store has another log.
        InvalidOptionError
            The store has no conditional put, so it cannot decide between two promotions.
        """
        refuse_unsafe(store)
        with LogFiles(path) as files:
            archiver = Archiver(files, store)
            archiver.prepare()
            newest = newest_session(archiver.target)
            if not store.single_writer:
                refuse_unconditional(archiver.target, newest)
            comparison = Comparison(files, archiver.target, log_end)
            common = comparison.common()
            return cls(path, store, newest.epoch, comparison.end(), common)

    @property
    def doubt(self) -> str:
        """What the promotion would lose; empty if nothing."""
        if self.end <= self.common:
            return ""
        return (
            f"the store has records up to position {self.end}, and those from position "
            f"{self.common} on are not of this log"
        )

    def claim(self, number: int, start: int, promotion_id: str) -> None:
        """Claim the epoch of the promotion; if another one has it, raise `FencedError`."""
        promotion = StoreSession(
            0, number, min(start, self.common), promotion_id, promotion=True, epoch_start=start
        )
        begin_epoch(target_of(self.store.target, self.store.filesystem), promotion)

    def begin(self) -> None:
        """Note durably that the log has this store."""
        with LogFiles(self.path) as files:
            files.begin_store(place_of(self.store))
