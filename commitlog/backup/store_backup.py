"""Back up a log to a store: store it once, as a log with `store=` does all the time.

The store is of backups then. Each one begins a session, whose id says so. So a log that keeps the
store by `store=` is not fenced by a backup, and the store of a log is not mixed with backups. No
file of the log changes: whether the store has the log's records is compared each time.
"""

from __future__ import annotations

from dataclasses import replace

from commitlog.backup.contents import Contents
from commitlog.backup.source_log import SourceLog
from commitlog.backup.writing import Written
from commitlog.base.path import is_remote
from commitlog.base.progress import Meter
from commitlog.errors import FencedError, InvalidOptionError, LogExistsError
from commitlog.extension import LogFiles
from commitlog.stores.contents import read_contents
from commitlog.stores.marker import place_of
from commitlog.stores.store import Store
from commitlog.stores.store_comparison import Comparison
from commitlog.stores.store_options import refuse_unsafe
from commitlog.stores.store_rounds import StoreRounds, recorded
from commitlog.stores.store_session import (
    StoreSession,
    fenced_by_epoch,
    newest_session,
    refuse_unconditional,
)
from commitlog.stores.store_standing import StoreRights
from commitlog.stores.stored_segments import StoredSegments
from commitlog.stores.storing import Standing
from commitlog.stores.target import Target, reading, target_of

_OF_BACKUP = "backup-"  # the id of a session begins so


def back_up(
    source: SourceLog, store: Store, meter: Meter, *, incremental: bool, verify: bool
) -> Written:
    """Store what the store lacks of a log."""
    place = place_of(store)
    if source.folder is None or is_remote(place):
        raise InvalidOptionError(
            f"{place}: only the directory of a log is backed up to a store: back up this log to a "
            "directory first"
        )
    refuse_unsafe(store)
    target, size = target_of(store.target, store.filesystem), source.size
    _check_target(target, place, incremental=incremental)
    before = read_contents(target, size).sizes
    written = Written(Contents(), recorded(source.find_end(), size))
    rights = BackupRights(source, store)
    rounds = StoreRounds(source.log.path, source.identity, store, rights)
    with LogFiles(source.folder, source.identity) as files:
        meter.grow(written.end)
        stored = 0
        while rounds.round(files, written.end):
            stored = _count(meter, stored, rounds.storing.stored)
        _count(meter, stored, rounds.storing.stored)
    source.check_same()
    after = read_contents(target, size)
    written.numbers = after.numbers
    written.new = [each for each in after.numbers if each not in before]
    written.bytes = sum(source.stop_of(each, written.end) for each in written.new)
    if verify:
        meter.grow(written.bytes)
        segments = StoredSegments(target, source.identity)
        for number in written.new:
            for piece in segments.pieces(number * size):
                meter.add(len(piece))
    meter.end()
    return written


def _count(meter: Meter, before: int, now: int) -> int:
    meter.add(max(0, now - before))
    return max(before, now)


def _check_target(target: Target, place: str, *, incremental: bool) -> None:
    if place.endswith(".tar.zst"):
        raise InvalidOptionError(
            f"{place}: a backup in one file is written to a path of this machine: write it there, "
            "then upload it"
        )
    with reading(target.name):
        names = target.names()
    if names and not incremental:
        raise LogExistsError(
            "there is something at this address already: give a new one, or continue an earlier "
            "backup with `--incremental`, incremental=True",
            path=target.name,
        )


class BackupRights(StoreRights):
    """The right of backups to a store that no log keeps."""

    def __init__(self, source: SourceLog, store: Store) -> None:
        self._epoch = source.lineage.number
        self._store = store
        claim = StoreSession.of(self._epoch, 0)
        self.claim = replace(claim, id=_OF_BACKUP + claim.id)

    def standing(
        self, files: LogFiles, target: Target, comparison: Comparison
    ) -> tuple[Standing, StoreSession]:
        newest = newest_session(target)
        if not self._store.single_writer:
            refuse_unconditional(target, newest)
        if not newest.number:
            return Standing.FIRST, newest
        if not newest.id.startswith(_OF_BACKUP):
            raise FencedError(
                f"session {newest.number} of this store is of a log that is opened with store=, "
                "which keeps the store up to date: back up to another address",
                path=target.name,
            )
        if newest.epoch > self._epoch:
            raise fenced_by_epoch(target, newest.epoch)
        return Standing.INHERITS, newest

    def note(
        self, files: LogFiles, target: Target, newest: StoreSession, claimed: StoreSession
    ) -> None:
        """Nothing: the next backup compares the store with the log."""

    def lose(self) -> None:
        """Nothing: the log goes on."""
