"""StoreService: store the end of an open log, and its sealed segments, in a thread."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import open_regular
from commitlog.base.service import Service
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    FencedError,
    LogExistsError,
    LogFailedError,
)
from commitlog.retention.archived import archived_name, read_header
from commitlog.retention.archiver import Archiver
from commitlog.retention.store import Store
from commitlog.retention.store_epoch import StoreEpoch
from commitlog.retention.store_figures import StoreFigures
from commitlog.retention.store_pruner import prune_store
from commitlog.retention.stored_mark import Marker
from commitlog.retention.stored_tail import StoredTail
from commitlog.retention.tail_object import read_contents
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.seal_table import SealTable

_logger = logging.getLogger("commitlog.store")
_AT_ONCE_BYTES = 1 << 20
_LOOKS = 10  # in the time between two objects


class StoreService(Service):
    """Store what is durable. Of the handles that have a log open, one stores it.

    `flush` makes durable what is appended, and returns where that ends. `durable_position` returns
    where the durable part ends, and `appended_position` the log's end. `fenced` is called
    if another log has claimed this epoch of the store or a later one.
    """

    def __init__(
        self,
        path: str,
        identity: Identity,
        store: Store,
        *,
        flush: Callable[[], int],
        appended_position: Callable[[], int],
        durable_position: Callable[[], int],
        epoch: StoreEpoch,
        fenced: Callable[[], object],
    ) -> None:
        super().__init__(f"commitlog store {path}")
        self._path = path
        self._identity = identity
        self._store = store
        self._flush = flush
        self._appended_position = appended_position
        self._durable_position = durable_position
        self._epoch = epoch
        self._fenced = fenced
        self._ending = threading.Event()
        self._last = 0
        self._next = 0  # every segment below this number is stored whole
        self._first_in_parts = 0  # segments below this number are stored whole only
        self._tail: StoredTail | None = None
        self._warned = False
        self._archiver: Archiver | None = None
        self._level_s = time.monotonic()  # when all of the log was stored
        self._last_error: str | None = None
        self._failed_rounds = 0
        self._marker = Marker(store)

    @property
    def kept_position(self) -> int:
        """Return the position below which each segment is stored whole and may be deleted."""
        return self._next * self._identity.segment_size

    def figures(self) -> StoreFigures:
        """Return how far the log is stored. Any thread may call this; it asks no store."""
        stored = 0 if self._tail is None else self._tail.end
        lag_bytes = max(0, self._recorded(self._appended_position()) - stored)
        return StoreFigures(
            stored_position=stored,
            kept_position=self.kept_position,
            lag_bytes=lag_bytes,
            lag_s=time.monotonic() - self._level_s if lag_bytes else 0.0,
            last_error=str(self.error) if self.error is not None else self._last_error,
            failed_rounds=self._failed_rounds,
            requests=0 if self._archiver is None else self._archiver.target.requests,
            is_storing=self._archiver is not None and self.error is None,
        )

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        with (
            contextlib.closing(LogDirectory(self._path, self._identity)) as directory,
            self._being_the_one(directory) as is_the_one,
        ):
            while is_the_one and not self._ending.is_set():
                self._try(directory)
                self._wait()
            if is_the_one:
                self._try(directory)
                self._report_rest()

    @contextlib.contextmanager
    def _being_the_one(self, directory: LogDirectory) -> Iterator[bool]:
        """Wait until no other handle stores this log; yield False if this one is closed before."""
        fd = open_regular(identities.NAME, dir_fd=directory.fd)
        try:
            locked = False
            while not locked:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    locked = True
                if not locked and self._ending.wait(self._store.every):
                    break
            yield locked
        finally:
            os.close(fd)

    def _wait(self) -> None:
        """Wait until the next object is due, or a MiB is to be stored."""
        for _ in range(_LOOKS):
            if self._ending.wait(self._store.every / _LOOKS):
                return
            stored = 0 if self._tail is None else self._tail.end
            if self._appended_position() - stored >= _AT_ONCE_BYTES and not self._warned:
                return

    def _try(self, directory: LogDirectory) -> None:
        """Store what is durable; warn of a failure, after which the next round tries again."""
        started_s = time.monotonic()
        try:
            while self._round(directory, self._durable()):
                self._mark(directory)
            self._level_s, self._last_error = started_s, None
            self._warned = False
        except (LogFailedError, LogExistsError, FencedError) as error:
            self._last_error = str(error)
            if isinstance(error, FencedError):
                self._fenced()
            raise
        except (CommitLogError, OSError) as error:
            self._last_error, self._failed_rounds = str(error), self._failed_rounds + 1
            if not self._warned:  # once, because the texts of some stores have times in them
                self._warned = True
                _logger.warning(
                    "%s: the log cannot be stored now, and is stored as soon as it can be: %s",
                    self._path,
                    error,
                )
        finally:
            self._mark(directory)

    def _mark(self, directory: LogDirectory) -> None:
        """Note in the log's directory what the store has, for all that delete segments."""
        compared, closing = self._tail is not None, self._ending.is_set()
        self._marker.note(directory, self.figures(), compared=compared, at_once=closing)

    def _durable(self) -> int:
        """Flush the log, unless it is being closed; return the durable end."""
        return self._recorded(self._last if self._ending.is_set() else self._flush())

    def _recorded(self, position: int) -> int:
        """Return a position, or the start of its segment if that has no record below it: a header
        page alone is not stored, because the segment may not be there yet.
        """
        offset = position % self._identity.segment_size
        return position if offset > HEADER_SIZE else position - offset

    def _round(self, directory: LogDirectory, durable: int) -> bool:
        """Store the end of the log, then one sealed segment; return whether more may be sealed.

        Segments that were sealed before this store was in use come first, because a store with a
        gap before its end cannot be restored.
        """
        if self._archiver is None:
            self._archiver = Archiver(directory, self._store)  # one client, for all rounds
        archiver = self._archiver
        if self._tail is None:
            self._tail = self._resume(directory, archiver, durable)
        else:
            self._epoch.refuse_later(archiver.target)
        if self._next >= self._first_in_parts:
            self._tail.store(durable)
        if (self._next + 1) * self._identity.segment_size > durable:
            return False
        if SealTable(directory).get(self._next) is None:
            return False
        try:
            self._store_whole(archiver, self._next)
        except CorruptSegmentError:
            self._first_in_parts = 0  # the end is stored all the same
            raise
        failpoint("segment stored")
        self._tail.covered(self._next)
        self._next += 1
        prune_store(archiver.target, self._identity, self._store)
        return True

    def _store_whole(self, archiver: Archiver, number: int) -> None:
        try:
            archiver.put(number, replace=False)
        except LogExistsError:
            size = self._identity.segment_size
            if not self._epoch.number or (number + 1) * size <= self._epoch.start:
                raise
            # A fenced writer's last put came after this epoch was claimed.
            archiver.target.delete([archived_name(number * size)])
            archiver.put(number, replace=False)

    def _report_rest(self) -> None:
        stored = 0 if self._tail is None else self._tail.end
        if stored < self._durable():
            _logger.warning(
                "%s: closed before positions %d to %d were stored; the next handle with the store "
                "continues there",
                self._path,
                stored,
                self._last,
            )

    # --- what is stored already -------------------------------------------------------------------

    def _resume(self, directory: LogDirectory, archiver: Archiver, durable: int) -> StoredTail:
        """Compare the store with the log, and continue where it ends.

        If the store has records that are not in this log, it belongs to a fork of it: the log was
        restored from an older state, or another machine writes it. Then nothing is stored.
        """
        archiver.prepare()
        self._epoch.claim(archiver.target)
        size = self._identity.segment_size
        contents = read_contents(archiver.target, size)
        tail = StoredTail(archiver.target, directory, self._store.level, self._epoch.number)
        numbers = directory.segment_numbers()
        first = numbers[0] if numbers else 0
        if self._cut(directory, archiver, [each for each in contents.sizes if each >= first]):
            contents = read_contents(archiver.target, size)
        if contents.end(size) > durable:
            raise self._forked(archiver, contents.end(size))
        stored = [number for number in contents.sizes if number >= first]
        if stored:
            theirs = read_header(archiver.target, stored[-1] * size, self._identity)
            if theirs != directory.read_header(stored[-1]):
                raise self._forked(archiver, stored[-1] * size)
        # What the store's own retention has deleted is not stored again.
        self._next = max(first, min(contents.sizes, default=0))
        while self._next in contents.sizes:
            self._next += 1
        parts = [part for number in sorted(contents.parts) for part in contents.parts[number]]
        if parts and not tail.has(parts[-1]):
            raise self._forked(archiver, parts[-1].first)
        tail.delete(contents.covered)
        self._first_in_parts = self._first_open(directory, first, durable)
        tail.resume(parts, contents.end(size), self._first_in_parts * size)
        return tail

    def _cut(self, directory: LogDirectory, archiver: Archiver, stored: list[int]) -> bool:
        """Delete whole segments that an earlier epoch's writer stored behind this one's start."""
        size = self._identity.segment_size
        gone = []
        for number in stored:
            if self._epoch.number and (number + 1) * size > self._epoch.start:
                theirs = read_header(archiver.target, number * size, self._identity)
                if not directory.has(number) or directory.read_header(number) != theirs:
                    gone.append(number)
        if gone:
            _logger.warning(
                "%s: deleted %d segments of an earlier epoch that go on behind position %d",
                archiver.target.name,
                len(gone),
                self._epoch.start,
            )
            archiver.target.delete([archived_name(number * size) for number in gone])
        return bool(gone)

    def _first_open(self, directory: LogDirectory, first: int, durable: int) -> int:
        """Return the number of the first segment that cannot be stored whole now."""
        stop = durable // self._identity.segment_size
        return SealTable(directory).sealed_before(first, max(first, stop))

    def _forked(self, archiver: Archiver, position: int) -> LogExistsError:
        return LogExistsError(
            f"the store has records at position {position} that this log does not have: the log "
            "was restored from an older state, or another machine writes it; nothing is stored. "
            "Use a new target",
            path=archiver.target.name,
            position=position,
        )

    def join(self, timeout_s: float) -> bool:
        if not self._ending.is_set():
            self._last = self._durable_position()
            self._ending.set()
        return super().join(timeout_s)
