"""Restore a log from a store or an archive, whole or as it was before a time or a position."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.base.moment import nanoseconds_of, read_moment
from commitlog.base.path import (
    is_remote,
    make_directory,
    opened_directory,
    path_of,
    sync_directory,
    translate_errors,
)
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    InvalidOptionError,
    LogExistsError,
    LogNotFoundError,
    NotALogError,
    PositionError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.commit_log import CommitLog
from commitlog.log.open_log import OpenLog
from commitlog.log.parts import LogParts, parts_of
from commitlog.log.reading import open_directory_of
from commitlog.options import Options, Tuning
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Epoch, Lineage
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, holes, segment_name
from commitlog.stores import own_sessions
from commitlog.stores.archived import is_archive
from commitlog.stores.archived_directory import ArchivedDirectory
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.store_lease import StoreLease
from commitlog.stores.store_session import newest_session, promotions

_logger = logging.getLogger("commitlog.store")
_AT_A_TIME = 4  # segments
_LEASE_TRIES = 10

Until = int | str | dt.datetime


@dataclass(frozen=True)
class Restored:
    """Describe a restored log.

    Attributes
    ----------
    path : str
        The log's directory.
    first_position, end_position : int
        Where its records begin, and the position behind the last one.
    segments : int
        The number of its segments.
    """

    path: str
    first_position: int
    end_position: int
    segments: int


def restore(
    place: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    until: Until | None = None,
    follows: str | None = None,
) -> Restored:
    """Restore a log from a store or an archive into an empty directory.

    The records keep their positions, sequences and timestamps. A restored log is complete and
    durable when this returns; if it raises, or the process is killed, the directory holds no log.
    Meanwhile, a `StoreLease` of an hour keeps retention from deleting what is restored, if the
    store can be written.

    Parameters
    ----------
    place : str or path
        The store: an address or a directory.
    path : path
        The directory of the new log; a missing one is created.
    until : int, str or datetime.datetime, optional
        The state to restore: a position, which becomes the end of the log, or a time, as text such
        as ``"2026-05-01T12:30"`` (UTC) or a datetime with a time zone. For a time, the log ends
        before the first record that is newer.
    follows : str, optional
        Make the restored log a copy: the URL of the log that it is to follow, for
        `commitlog.replication.follow`. A copy that begins this way needs no segment that its
        primary has deleted.

    Raises
    ------
    LogExistsError
        The directory is not empty.
    LogNotFoundError, NotALogError
        There is no store.
    CorruptSegmentError
        An object is damaged or missing.
    PositionError
        Retention has deleted a segment that is needed, no record starts at the position, or the
        store does not reach it.
    InvalidOptionError
        `until` is not valid.
    """
    source, target = os.fspath(place), path_of(path)
    wanted = _until(until)
    if follows is not None and not is_remote(follows):
        raise InvalidOptionError(
            f"follows must be the URL of a log, such as 'tls://host:7070/orders', not {follows!r}"
        )
    if not is_archive(source):
        raise (NotALogError if os.path.lexists(source) else LogNotFoundError)(
            "there is no store and no archive here: give the address or directory of one",
            path=source,
        )
    with _leased(source) as lease, _opened(source, wanted) as log:
        parts = parts_of(log)
        directory = parts.directory
        assert isinstance(directory, ArchivedDirectory)
        end = _end(parts, wanted)
        numbers = _numbers(directory, end)
        with translate_errors(target, "restore a log"), _empty(target):
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                for _ in pool.map(lambda number: _write(directory, target, number, end), numbers):
                    _renew(lease)
            _finish(directory, target, follows, end)
        return Restored(
            target, numbers[0] * directory.segment_size + HEADER_SIZE, end, len(numbers)
        )


def _opened(place: str, wanted: tuple[int | None, int | None]) -> CommitLog:
    """Open a store as far as it is needed: what is missing behind the wanted end is no error."""
    directory = ArchivedDirectory(place, Tuning().archive_cache, before=wanted[0])
    opened = open_directory_of(directory, allow_hole=wanted[0] is not None)
    return CommitLog(OpenLog("r", opened, Options()))


@contextlib.contextmanager
def _leased(place: str) -> Iterator[StoreLease | None]:
    """Keep retention from deleting what is restored; None if the store cannot be written."""
    lease = _lease(place)
    try:
        yield lease
    finally:
        if lease is not None:
            try:
                lease.release()
            except CommitLogError as error:
                _logger.warning("%s: the lease stays until it ends: %s", place, error)


def _lease(place: str) -> StoreLease | None:
    for _ in range(_LEASE_TRIES):
        try:
            return StoreLease(place)
        except PositionError:  # deleted at this moment: the store begins later now
            continue
        except CommitLogError as error:  # such as a credential that may only read
            _logger.info("%s: restored without a lease: %s", place, error)
            break
    return None


def _renew(lease: StoreLease | None) -> None:
    if lease is not None:
        try:
            lease.renew()
        except CommitLogError as error:
            _logger.warning("the lease of a restore is not renewed: %s", error)


def _until(until: object) -> tuple[int | None, int | None]:
    """Return the position, or the time in nanoseconds, that ends the log."""
    if until is None:
        return None, None
    if type(until) is int and until >= 0:
        return until, None
    try:
        if isinstance(until, str):
            return None, read_moment(until)
        if isinstance(until, dt.datetime) and until.tzinfo is not None:
            return None, nanoseconds_of(until)
    except (ValueError, OverflowError):
        pass
    raise InvalidOptionError(
        f"until must be a position, a time such as '2026-05-01T12:30', or a datetime with a time "
        f"zone, not {until!r}"
    )


def _end(parts: LogParts, wanted: tuple[int | None, int | None]) -> int:
    position, timestamp_ns = wanted
    directory = parts.directory
    assert isinstance(directory, ArchivedDirectory)
    end, committed = directory.recorded_end(), int(parts.engine.committed_position)
    if timestamp_ns is not None:
        newer = parts.index.position_since(timestamp_ns + 1)
        return end if newer is None else newer
    if position is None or position in (end, committed):
        return end
    if position > committed:
        raise PositionError(
            f"the store ends at position {end}: restore up to a position in it",
            path=parts.path,
            position=position,
        )
    if position <= directory.segment_numbers()[0] * directory.segment_size:
        raise PositionError(
            "the store does not have what is before this position: give a later one",
            path=parts.path,
            position=position,
        )
    parts.index.sequence_of(position)  # refuses a position at which no record starts
    return position


def _numbers(directory: ArchivedDirectory, end: int) -> list[int]:
    """Return the segments up to a position; refuse a gap between them."""
    size = directory.segment_size
    numbers = directory.segment_numbers()
    found = [number for number in numbers if number * size + HEADER_SIZE < end]
    for start, stop in holes(found, size):
        raise CorruptSegmentError(
            f"segments from position {start} to {stop} are missing in the store: restore them "
            "from another copy, or restore up to an earlier position",
            path=directory.path,
            position=start,
        )
    if not found:
        raise PositionError(
            "the store has no record before that position or time: give a later one",
            path=directory.path,
            position=end,
        )
    return found


@contextlib.contextmanager
def _empty(path: str) -> Iterator[None]:
    """Refuse a directory that is not empty, or in which another process restores; empty it again if
    the block raises.
    """
    make_directory(path)
    with opened_directory(path) as fd:
        if _is_locked(fd):
            raise LogExistsError(
                "another process restores a log here: wait for it, or restore into a new directory",
                path=path,
            )
        if os.listdir(path):
            raise LogExistsError(
                "the directory is not empty: restore into a new or an empty one", path=path
            )
        try:
            yield
        except BaseException:
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            raise


def _is_locked(fd: int) -> bool:
    """Lock a directory; return whether another process has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        pass
    return False


def _write(directory: ArchivedDirectory, path: str, number: int, end: int) -> None:
    size = directory.segment_size
    name = os.path.join(path, segment_name(number * size))
    with open(name, "xb") as file:
        directory.unpack(number, file, end)
        if end < (number + 1) * size:
            # Appends continue here: a full disk must not turn a store into SIGBUS.
            os.posix_fallocate(file.fileno(), 0, size)
        os.fsync(file.fileno())
    failpoint("segment restored")


def _epochs(directory: ArchivedDirectory, end: int) -> tuple[Epoch, ...]:
    """Return the epochs of what was restored, as far as they are certain.

    A whole segment does not say who wrote it. If the store ends with a part of an epoch, the
    primary of that epoch has compared or stored each whole segment below. Otherwise a fenced writer
    may have put the last one: without the epoch here, the follower cuts the copy where it starts.
    """
    epochs = [each for each in promotions(directory.target) if each.epoch_start <= end]
    writer = directory.last_epoch()
    while epochs and epochs[-1].epoch_start < end and epochs[-1].epoch != writer:
        epochs.pop()
    return tuple(Epoch(each.epoch, each.epoch_start, each.id) for each in epochs)


def _finish(directory: ArchivedDirectory, path: str, follows: str | None, end: int) -> None:
    """Write the identity last: without it the directory is no log."""
    with contextlib.closing(LogDirectory(path, directory.identity)) as restored:
        if follows is None:
            # So this directory, and no other, may go on with the store.
            newest = newest_session(directory.target)
            if newest.number:
                own_sessions.write(restored, OwnSessions(restored=newest.id))
        else:
            Epochs(restored).write(Lineage(_epochs(directory, end), follows, stored=True))
    with opened_directory(path) as fd:
        # All of it is durable: a bad frame in it is damage, and no torn tail.
        checkpoints.write(fd, directory.log_uuid, end, clean=True)
        os.fsync(fd)
        failpoint("segments durable")
        identities.write(fd, directory.identity)
    failpoint("log restored")
    sync_directory(os.path.dirname(os.path.realpath(path)))
