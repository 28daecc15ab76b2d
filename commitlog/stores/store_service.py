"""StoreService: store the end of an open log, and its sealed segments, in a thread."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator

from commitlog.base.host import host
from commitlog.base.service import Service
from commitlog.errors import (
    CommitLogError,
    FencedError,
    InvalidOptionError,
    LogExistsError,
    LogFailedError,
)
from commitlog.extension import LogFiles, LogView
from commitlog.stats import StoreStats
from commitlog.stores.marker import Marker, place_of
from commitlog.stores.side_stores import SideStores
from commitlog.stores.store_options import StoreOptions, refuse_unsafe
from commitlog.stores.store_rounds import StoreRounds, recorded
from commitlog.stores.store_standing import LogRights

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
        rights = LogRights(log, store)
        self._rounds = StoreRounds(log.path, identity, store, rights, is_side=is_side)
        self._ending = host.event()
        self._last = 0
        self._warned = False
        self._last_error: str | None = None
        self._failed_rounds = 0
        self._marker = Marker(store)
        begin = functools.partial(StoreService, is_side=True)
        self._sides = SideStores(log.path, store, rights.claim.epoch, begin)
        if not is_side:
            with LogFiles(log.path, identity) as files:
                files.begin_store(place_of(store))
            log.hold("store", self._held)

    @property
    def kept_position(self) -> int:
        """Return the position below which each segment is stored whole and may be deleted."""
        return self._rounds.storing.kept_position

    def stored(self) -> StoreStats | None:
        """Return what this handle has stored, without a lag; None if another handle stores the log,
        or before the store was compared with the log. Any thread may call this; it asks no store.
        """
        known = self._rounds.has_begun and self.error is None and self._rounds.storing.stored > 0
        return self._stored() if known else None

    def _stored(self) -> StoreStats:
        return StoreStats(
            target=place_of(self._store),
            position=self._rounds.storing.stored,
            kept_position=self.kept_position,
            last_error=str(self.error) if self.error is not None else self._last_error,
            failed_rounds=self._failed_rounds,
            requests=self._rounds.requests,
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
            stored = self._rounds.storing.stored if self._rounds.is_compared else 0
            if self._log.tail_position - stored >= _AT_ONCE_BYTES and not self._warned:
                return

    def _try(self, files: LogFiles) -> None:
        """Store what is durable; warn of a failure, after which the next round tries again."""
        try:
            # The end is stored between two segments, which may take long.
            while self._rounds.round(files, self._durable()):
                self._mark(files)
            self._sides.round(self._rounds.target)
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
        compared, closing = self._rounds.is_compared, self._ending.is_set()
        self._marker.note(files, self._stored(), compared=compared, at_once=closing)

    def _durable(self) -> int:
        """Flush the log, unless it is being closed; return the durable end."""
        if self._is_side:
            if self._log.flushed_position < self._log.committed_position:
                self._log.ask_for_flush()
            end = self._log.flushed_position
        else:
            end = self._last if self._ending.is_set() else self._log.flush(_FLUSH_S)
        return recorded(end, self._identity.segment_size)

    def _report_rest(self) -> None:
        stored, durable = self._rounds.storing.stored, self._durable()
        if stored < durable:
            _logger.warning(
                "%s: closed before positions %d to %d were stored; the next handle with the store "
                "continues there",
                self._path,
                stored,
                durable,
            )

    def join(self, timeout_s: float) -> bool:
        if not self._ending.is_set():
            self._last = self._log.flushed_position
            self._ending.set()
        return super().join(timeout_s)
