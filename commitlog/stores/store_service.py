"""StoreService: store the end of an open log, and its sealed segments, in a thread."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from dataclasses import replace

from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.base.service import Service
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    FencedError,
    InvalidOptionError,
    LogExistsError,
    LogFailedError,
)
from commitlog.extension import HEADER_SIZE, LogFiles, LogView
from commitlog.stats import StoreStats
from commitlog.stores import own_sessions
from commitlog.stores.archiver import Archiver
from commitlog.stores.marker import Marker, place_of
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.side_stores import SideStores
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_options import StoreOptions, refuse_unsafe
from commitlog.stores.store_pruner import prune_store
from commitlog.stores.store_rights import check_rights
from commitlog.stores.store_session import (
    StoreSession,
    begin_epoch,
    fenced_by_epoch,
    foreign,
    newest_session,
    refuse_unconditional,
    retire,
)
from commitlog.stores.stored_tail import StoredTail
from commitlog.stores.storing import (
    Standing,
    Step,
    StoreEnd,
    StoreWhole,
    Storing,
    standing,
)
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")
_AT_ONCE_BYTES = 1 << 20
_FLUSH_S = 5.0
_LOOKS = 10  # in the time between two objects


class StoreService(Service):
    """Store what is durable. Of the handles that have a log open, one stores it.

    If another log was promoted, or another writer claims the store while this one stores, the log
    fails.

    Parameters
    ----------
    is_side : bool
        The log is a side log, which is opened for reading. It may delete what is not stored, and
        its store then does the same.
    """

    def __init__(self, log: LogView, store: StoreOptions, *, is_side: bool = False) -> None:
        super().__init__(f"commitlog store {log.path}")
        refuse_unsafe(store)
        self._is_side = is_side
        self._log = log
        self._path = log.path
        self._identity = identity = log.identity
        self._store = store
        own = log.epochs.read()
        self._promotion = self._session = StoreSession(
            number=0,
            epoch=own.number,
            start=own.promotion.start,
            id=own.rank.id,
            promotion=True,
            epoch_start=own.promotion.start,
        )
        self._claim = StoreSession.of(own.number, 0)
        self._ending = host.event()
        self._last = 0
        self._storing = Storing(identity.segment_size)
        self._tail: StoredTail | None = None
        self._unneeded: list[str] = []
        self._warned = False
        self._archiver: Archiver | None = None
        self._last_error: str | None = None
        self._failed_rounds = 0
        self._marker = Marker(store)
        self._sides = SideStores(
            log.path, store, own.number, functools.partial(StoreService, is_side=True)
        )
        if not is_side:
            with LogFiles(log.path, identity) as files:
                files.begin_store(place_of(store))
            log.hold("store", self._held)

    @property
    def kept_position(self) -> int:
        """Return the position below which each segment is stored whole and may be deleted."""
        return self._storing.kept_position

    def stored(self) -> StoreStats | None:
        """Return what this handle has stored, without a lag; None if another handle stores the log,
        or before the store was compared with the log. Any thread may call this; it asks no store.
        """
        known = self._archiver is not None and self.error is None and self._storing.stored > 0
        return self._stored() if known else None

    def _stored(self) -> StoreStats:
        return StoreStats(
            target=place_of(self._store),
            position=self._storing.stored,
            kept_position=self.kept_position,
            last_error=str(self.error) if self.error is not None else self._last_error,
            failed_rounds=self._failed_rounds,
            requests=0 if self._archiver is None else self._archiver.target.requests,
        )

    def _held(self) -> int | None:
        return None if self.stored() is None else self.kept_position

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        with (
            LogFiles(self._path, self._identity) as files,
            self._being_the_one(files) as is_the_one,
        ):
            try:
                while is_the_one and not self._ending.is_set():
                    self._try(files)
                    self._wait()
                if is_the_one:
                    self._try(files)
                    self._report_rest()
            finally:
                self._sides.close()

    @contextlib.contextmanager
    def _being_the_one(self, files: LogFiles) -> Iterator[bool]:
        """Wait until no other handle stores this log; yield False if this one is closed before."""
        with contextlib.closing(files.storing_lock()) as lock:
            while not (is_the_one := lock.acquire("exclusive")):
                if self._ending.wait(self._store.every):
                    break
            yield is_the_one

    def _wait(self) -> None:
        """Wait until the next object is due, or a MiB is to be stored."""
        for _ in range(_LOOKS):
            if self._ending.wait(self._store.every / _LOOKS):
                return
            stored = self._storing.stored if self._tail is not None else 0
            if self._log.tail_position - stored >= _AT_ONCE_BYTES and not self._warned:
                return

    def _try(self, files: LogFiles) -> None:
        """Store what is durable; warn of a failure, after which the next round tries again."""
        try:
            # The end is stored between two segments, which may take long.
            while self._round(files, self._durable()):
                self._mark(files)
            assert self._archiver is not None
            self._sides.round(self._archiver.target)
            self._last_error, self._warned = None, False
        except (LogFailedError, LogExistsError, FencedError, InvalidOptionError) as error:
            self._last_error = str(error)
            raise
        except Exception as error:  # a library of a store may raise any
            self._last_error = str(error) or type(error).__name__
            if not isinstance(error, CommitLogError):  # it does not say what failed
                self._last_error += f" (store {place_of(self._store)})"
            self._failed_rounds += 1
            if not self._warned:  # once, because the texts of some stores have times in them
                self._warned = True
                _logger.warning(
                    "%s: the log cannot be stored now, and is stored as soon as it can be: %s",
                    self._path,
                    self._last_error,
                    exc_info=not isinstance(error, (CommitLogError, OSError)),
                )
        finally:
            self._mark(files)

    def _mark(self, files: LogFiles) -> None:
        """Note in the log's directory what the store has, for all that delete segments."""
        if self._is_side:
            return
        compared, closing = self._tail is not None, self._ending.is_set()
        self._marker.note(files, self._stored(), compared=compared, at_once=closing)

    def _durable(self) -> int:
        """Flush the log, unless it is being closed; return the durable end."""
        if self._is_side:
            if self._log.flushed_position < self._log.committed_position:
                self._log.ask_for_flush()
            return self._recorded(self._log.flushed_position)
        return self._recorded(self._last if self._ending.is_set() else self._log.flush(_FLUSH_S))

    def _recorded(self, position: int) -> int:
        """Return a position, or the start of its segment if that has no record below it: a header
        page alone is not stored, because the segment may not be there yet.
        """
        offset = position % self._identity.segment_size
        return position if offset > HEADER_SIZE else position - offset

    def _round(self, files: LogFiles, durable: int) -> bool:
        """Store the end of the log, or a gap, then a sealed segment; return whether more may be
        sealed.
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
            self._tail.delete(self._storing.drop_covered())
            first = files.segment_numbers()[:1] if self._is_side else []
            prune_store(archiver.target, self._identity, self._store, *first)
        return step is not None

    def _next_step(self, files: LogFiles, durable: int) -> Step | None:
        numbers, onward = files.segment_numbers(), self._storing.next
        return self._storing.next_step(
            first_here=numbers[0] if numbers else 0,
            durable=durable,
            is_sealed=files.sealed_before(onward, onward + 1) > onward,
        )

    def _do(self, step: Step, files: LogFiles, archiver: Archiver, durable: int) -> None:
        assert self._tail is not None
        if isinstance(step, StoreEnd):
            self._tail.store(step, self._storing)
            return
        if isinstance(step, StoreGap):
            self._record_gap(step, files, archiver, durable)
        else:
            self._store_whole(archiver, step.number)
        self._storing.did(step)

    def _refuse_later(self, archiver: Archiver) -> None:
        try:
            self._session.refuse_later(archiver.target)
        except FencedError:
            self._log.fail_replaced()
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
        self._storing.first_in_parts = self._first_open(files, gap.stop // size, durable)

    def _store_whole(self, archiver: Archiver, number: int) -> None:
        size = self._identity.segment_size
        try:
            archiver.put(number, replace=False)
        except CorruptSegmentError:
            self._storing.skip_damage()  # the end is stored all the same
            raise
        except LogExistsError:
            if (number + 1) * size <= self._session.start:
                raise
            # A fenced writer's last put came after this session was claimed.
            self._refuse_later(archiver)
            archiver.put(number)
        failpoint("segment stored")

    def _report_rest(self) -> None:
        stored, durable = self._storing.stored, self._durable()
        if stored < durable:
            _logger.warning(
                "%s: closed before positions %d to %d were stored; the next handle with the store "
                "continues there",
                self._path,
                stored,
                durable,
            )

    # --- what is stored already -------------------------------------------------------------------

    def _resume(self, files: LogFiles, archiver: Archiver, durable: int) -> StoredTail:
        """Compare the store with the log, begin a session, and continue where the store ends."""
        check_rights(archiver.target)
        archiver.prepare()
        target, size = archiver.target, self._identity.segment_size
        own = own_sessions.read(files.notes)
        comparison = Comparison(files, target, durable)
        how, newest = self._standing(target, own, comparison)
        position = comparison.compare(how, newest)
        # A second try has the same id, because the request of the first one may arrive late.
        session = replace(self._claim, start=position)
        own_sessions.write(files.notes, own.claiming(target.name, newest, session.id))
        failpoint("session noted")
        try:
            self._session = session.claim_behind(target, newest)
        except FencedError:
            self._standing(target, own, comparison)  # fails the log if another one was promoted
            raise
        # What a writer of an earlier session stored meanwhile does not count.
        contents = comparison.segments.list_again()
        self._storing = storing = Storing(size)
        storing.begin(comparison.first, contents, position)
        first_in_parts = self._first_open(files, storing.next, durable)
        storing.resume(contents, first_in_parts, again=how.takes_over)
        self._unneeded = contents.covered
        target.sweep()
        sessions = [part.session for parts in contents.parts.values() for part in parts]
        retire(target, self._session, min(sessions, default=1 << 62))
        return StoredTail(target, files, self._store.level, self._session)

    def _standing(
        self, target: Target, own: OwnSessions, comparison: Comparison
    ) -> tuple[Standing, StoreSession]:
        """Return how the log stands to the newest session of the store; raise if it is fenced."""
        newest, promotion = newest_session(target), self._promotion
        if not self._store.single_writer:
            refuse_unconditional(target, newest)
        how = standing(newest, promotion, own)
        if how is Standing.BEHIND or (how is Standing.FOREIGN and promotion.epoch):
            self._log.fail_replaced()
            raise fenced_by_epoch(target, newest.epoch)
        if how is Standing.FOREIGN:
            raise foreign(target, newest.number)
        if how is Standing.ADVANCES:
            start = min(promotion.start, comparison.common())
            end = comparison.end()
            try:
                begin_epoch(target, replace(promotion, start=start))
            except FencedError:
                self._log.fail_replaced()
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

    def _first_open(self, files: LogFiles, first: int, durable: int) -> int:
        """Return the number of the first segment that cannot be stored whole now."""
        stop = durable // self._identity.segment_size
        return files.sealed_before(first, max(first, stop))

    def join(self, timeout_s: float) -> bool:
        if not self._ending.is_set():
            self._last = self._log.flushed_position
            self._ending.set()
        return super().join(timeout_s)
