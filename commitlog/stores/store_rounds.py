"""StoreRounds: store a log round by round, as `Storing` decides, under a session."""

from __future__ import annotations

import logging
from dataclasses import replace

from commitlog.base.failpoint import failpoint
from commitlog.errors import CorruptSegmentError, FencedError, LogExistsError
from commitlog.extension import HEADER_SIZE, LogFiles
from commitlog.stores.archiver import Archiver
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.store_pruner import prune_store
from commitlog.stores.store_rights import check_rights
from commitlog.stores.store_session import retire
from commitlog.stores.store_standing import StoreRights
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import Step, StoreEnd, StoreWhole, Storing
from commitlog.stores.target import Target
from commitlog.types import Identity

_logger = logging.getLogger("commitlog.store")


def recorded(position: int, segment_size: int) -> int:
    """Return a position, or the start of its segment if that has no record below it: a header page
    alone is not stored, because the segment may not be there yet.
    """
    offset = position % segment_size
    return position if offset > HEADER_SIZE else position - offset


class StoreRounds:
    """Store what a log has. One thread at a time may use it.

    Parameters
    ----------
    path : str
        Of the log, for messages.
    identity : Identity
        The log.
    store : StoreOptions
        Where to.
    rights : StoreRights
        Whether the log may write there.
    is_side : bool
        It is a side log, which may delete what is not stored. The store then does the same.

    Attributes
    ----------
    storing : Storing
        What is stored, once the store was compared with the log.
    """

    def __init__(
        self,
        path: str,
        identity: Identity,
        store: StoreOptions,
        rights: StoreRights,
        *,
        is_side: bool = False,
    ) -> None:
        self._is_side = is_side
        self._path = path
        self._identity = identity
        self._store = store
        self._rights = rights
        self._claim = self._session = rights.claim
        self._archiver: Archiver | None = None
        self._tail: StoredTail | None = None
        self._unneeded: list[str] = []
        self.storing = Storing(identity.segment_size)

    @property
    def has_begun(self) -> bool:
        """Whether the store was asked for anything."""
        return self._archiver is not None

    @property
    def is_compared(self) -> bool:
        """Whether the store was compared with the log."""
        return self._tail is not None

    @property
    def target(self) -> Target:
        """The store, once it was asked for anything."""
        assert self._archiver is not None
        return self._archiver.target

    @property
    def requests(self) -> int:
        return 0 if self._archiver is None else self._archiver.target.requests

    def round(self, files: LogFiles, durable: int) -> bool:
        """Store the end of the log, or a gap, then a sealed segment; return whether more may be
        sealed. `durable` is where the log ends, behind a record.
        """
        if self._archiver is None:
            self._archiver = Archiver(files, self._store)  # one client, for all rounds
        archiver = self._archiver
        if self._tail is None:
            self._tail = self._resume(files, archiver, durable)
        else:
            self._refuse_later(archiver)
        while (step := self._next_step(files, durable)) is not None:
            self._do(step, files, archiver, durable)
            if isinstance(step, StoreWhole):
                break
        if self._unneeded:
            self._tail.delete(self._unneeded)
            self._unneeded = []
        if isinstance(step, StoreWhole):
            self._tail.delete(self.storing.drop_covered())
            first = files.segment_numbers()[:1] if self._is_side else []
            prune_store(archiver.target, self._identity, self._store, *first)
        return step is not None

    def _next_step(self, files: LogFiles, durable: int) -> Step | None:
        numbers, onward = files.segment_numbers(), self.storing.next
        return self.storing.next_step(
            first_here=numbers[0] if numbers else 0,
            durable=durable,
            is_sealed=files.sealed_before(onward, onward + 1) > onward,
        )

    def _do(self, step: Step, files: LogFiles, archiver: Archiver, durable: int) -> None:
        assert self._tail is not None
        if isinstance(step, StoreEnd):
            self._tail.store(step, self.storing)
            return
        if isinstance(step, StoreGap):
            self._record_gap(step, files, archiver, durable)
        else:
            self._store_whole(archiver, step.number)
        self.storing.did(step)

    def _refuse_later(self, archiver: Archiver) -> None:
        try:
            self._session.refuse_later(archiver.target)
        except FencedError:
            self._rights.lose()
            raise

    def _record_gap(self, gap: StoreGap, files: LogFiles, archiver: Archiver, durable: int) -> None:
        """Go on behind records that were deleted before they were stored."""
        if gap.start < gap.stop:
            gap.put(archiver.target)
            failpoint("gap recorded")
            _logger.log(
                logging.DEBUG if self._is_side else logging.WARNING,
                "%s: positions %d to %d were deleted from the log before they were stored; the "
                "store goes on behind them",
                self._path,
                gap.start,
                gap.stop,
            )
        size = self._identity.segment_size
        self.storing.first_in_parts = self._first_open(files, gap.stop // size, durable)

    def _store_whole(self, archiver: Archiver, number: int) -> None:
        size = self._identity.segment_size
        try:
            archiver.put(number, replace=False)
        except CorruptSegmentError:
            self.storing.skip_damage()  # the end is stored all the same
            raise
        except LogExistsError:
            if (number + 1) * size <= self._session.start:
                raise
            # A fenced writer's last put came after this session was claimed.
            self._refuse_later(archiver)
            archiver.put(number)
        failpoint("segment stored")

    # --- what is stored already -------------------------------------------------------------------

    def _resume(self, files: LogFiles, archiver: Archiver, durable: int) -> StoredTail:
        """Compare the store with the log, begin a session, and continue where the store ends."""
        check_rights(archiver.target)
        archiver.prepare()
        target, size = archiver.target, self._identity.segment_size
        comparison = Comparison(files, target, durable)
        how, newest = self._rights.standing(files, target, comparison)
        position = comparison.compare(how, newest)
        # A second try has the same id, because the request of the first one may arrive late.
        session = replace(self._claim, start=position)
        self._rights.note(files, target, newest, session)
        try:
            self._session = session.claim_behind(target, newest)
        except FencedError:
            self._rights.standing(files, target, comparison)  # another one may be promoted
            raise
        # What a writer of an earlier session stored meanwhile does not count.
        contents = comparison.segments.list_again()
        self.storing = storing = Storing(size)
        storing.begin(comparison.first, contents, position)
        first_in_parts = self._first_open(files, storing.next, durable)
        storing.resume(contents, first_in_parts, again=how.takes_over)
        self._unneeded = contents.covered
        target.sweep()
        sessions = [part.session for parts in contents.parts.values() for part in parts]
        retire(target, self._session, min(sessions, default=1 << 62))
        return StoredTail(target, files, self._store.level, self._session)

    def _first_open(self, files: LogFiles, first: int, durable: int) -> int:
        """Return the number of the first segment that cannot be stored whole now."""
        stop = durable // self._identity.segment_size
        return files.sealed_before(first, max(first, stop))
