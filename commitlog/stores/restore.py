"""Restore a log from a store or an archive, whole or as it was before a time or a position."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from commitlog.base.host import host
from commitlog.base.moment import nanoseconds_of, read_moment
from commitlog.base.path import is_remote, path_of, translate_errors
from commitlog.base.progress import Meter, Progress
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    InvalidOptionError,
    LogNotFoundError,
    NotALogError,
    PositionError,
)
from commitlog.extension import (
    HEADER_SIZE,
    Epoch,
    Lineage,
    LockedLog,
    LogCopy,
    LogView,
    holes,
    open_source,
    view_of,
)
from commitlog.stores import own_sessions
from commitlog.stores.archive_source import ArchiveSource
from commitlog.stores.archived import is_archive
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.side_stores import place_of_side, stored_sides
from commitlog.stores.store_lease import StoreLease
from commitlog.stores.store_session import newest_session, promotions
from commitlog.stores.tar_target import INDEX, TarTarget
from commitlog.stores.target import Target
from commitlog.types import Identity

_logger = logging.getLogger("commitlog.store")
_AT_A_TIME = 4  # segments
_LEASE_TRIES = 10
_SIDE_TRIES = 5
_ANY_POSITION = (1 << 63) - 1
_MADE_ANEW = (Identity.FILE_NAME, INDEX, "checkpoint", "epoch", "backup")  # of a backup in one file

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
    progress: Progress | None = None,
) -> Restored:
    """Restore a log from a store, an archive or a backup in one file into an empty directory.

    The records keep their positions, sequences and timestamps. Of a backup, named tailers, queues
    and producers are restored, too, unless `until` is given. A restored log is complete and
    durable when this returns; if it raises, or the process is killed, the directory holds no log.
    Meanwhile, a `StoreLease` of an hour keeps retention from deleting what is restored, if the
    store can be written.

    Parameters
    ----------
    place : str or path
        The store: an address or a directory; or the file of a backup.
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
    progress : callable, optional
        Called now and then with the bytes that are restored, and their total. What it raises ends
        the restore, and the directory holds no log.

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
            "there is no store and no archive here: give the address or directory of one; a backup "
            "in a directory is a log, which `commitlog backup` copies back",
            path=source,
        )
    with _leased(source) as lease:
        archive = ArchiveSource(source, before=wanted[0])
        with open_source(archive) as log:
            end = _end(view_of(log), archive, wanted)
            numbers = _numbers(archive, end)
            size = archive.segment_size
            meter = Meter(progress, sum(min(size, end - each * size) for each in numbers))
            _copy(archive, target, numbers, end, lease=lease, follows=follows, meter=meter)
        return Restored(target, numbers[0] * archive.segment_size + HEADER_SIZE, end, len(numbers))


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


def _end(view: LogView, archive: ArchiveSource, wanted: tuple[int | None, int | None]) -> int:
    position, timestamp_ns = wanted
    end, committed = archive.recorded_end(), view.committed_position
    if timestamp_ns is not None:
        newer = view.position_since(timestamp_ns + 1)
        return end if newer is None else newer
    if position is None or position in (end, committed):
        return end
    if position > committed:
        raise PositionError(
            f"the store ends at position {end}: restore up to a position in it",
            path=view.path,
            position=position,
        )
    if position <= view.first_position:
        raise PositionError(
            "the store does not have what is before this position: give a later one",
            path=view.path,
            position=position,
        )
    view.sequence_of(position)  # refuses a position at which no record starts
    return position


def _numbers(archive: ArchiveSource, end: int) -> list[int]:
    """Return the segments up to a position; refuse a gap between them."""
    size = archive.segment_size
    numbers = [ref.number for ref in archive.segments()]
    found = [number for number in numbers if number * size + HEADER_SIZE < end]
    for start, stop in holes(found, size):
        raise CorruptSegmentError(
            f"segments from position {start} to {stop} are missing in the store: restore them "
            "from another copy, or restore up to an earlier position",
            path=archive.location,
            position=start,
        )
    if not found and end == archive.recorded_end():
        found = numbers[:1]  # the backup of an empty log
    if not found:
        raise PositionError(
            "the store has no record before that position or time: give a later one",
            path=archive.location,
            position=end,
        )
    return found


def _epochs(archive: ArchiveSource, end: int) -> tuple[Epoch, ...]:
    """Return the epochs of what was restored, as far as they are certain.

    A whole segment does not say who wrote it. If the store ends with a part of an epoch, the
    primary of that epoch has compared or stored each whole segment below. Otherwise a fenced writer
    may have put the last one: without the epoch here, the follower cuts the copy where it starts.
    """
    epochs = [each for each in promotions(archive.target) if each.epoch_start <= end]
    writer = archive.last_epoch()
    while epochs and epochs[-1].epoch_start < end and epochs[-1].epoch != writer:
        epochs.pop()
    return tuple(Epoch(each.epoch, each.epoch_start, each.id) for each in epochs)


def _copy(
    archive: ArchiveSource,
    target: str,
    numbers: list[int],
    end: int,
    *,
    lease: StoreLease | None = None,
    follows: str | None = None,
    meter: Meter | None = None,
) -> None:
    with (
        translate_errors(target, "restore a log"),
        LockedLog.restore(target, archive.identity) as copy,
    ):
        # Before there is a log: it never lacks its queues.
        _restore_sides(archive, target)

        def write(number: int) -> None:
            copy.add_segment(
                number,
                lambda file: archive.unpack(number, file, end),
                last=end < (number + 1) * archive.segment_size,
            )

        with host.executor(_AT_A_TIME, target) as pool:
            for _ in pool.map(write, numbers):
                _renew(lease)
                if meter is not None:
                    meter.add(archive.segment_size)
        if meter is not None:
            meter.end()
        known = None
        if isinstance(archive.target, TarTarget) and end == archive.recorded_end():
            known = _copy_files(archive.target, copy)
        if follows is not None:
            known = Lineage(_epochs(archive, end), follows, stored=True)
        elif (newest := newest_session(archive.target)).number:
            # So this directory, and no other, may go on with the store.
            own_sessions.write(copy.notes, OwnSessions(restored=newest.id))
        copy.finish(end, known)


def _restore_sides(archive: ArchiveSource, path: str) -> None:
    """Restore the side logs of a store to their ends. One that is damaged does not keep its log
    from being restored.
    """
    for folder in stored_sides(archive.target):
        where = os.path.join(path, folder)
        for tried in range(_SIDE_TRIES):
            try:
                _restore_side(archive.target, folder, where)
                break
            except CorruptSegmentError as error:  # perhaps its store is just being written
                if tried == _SIDE_TRIES - 1:
                    _logger.warning(
                        "%s cannot be restored, and its queue goes on without it: %s", where, error
                    )
        else:
            shutil.rmtree(where, ignore_errors=True)


def _restore_side(target: Target, folder: str, where: str) -> None:
    for side in stored_sides(target).get(folder, []):
        try:
            inside = ArchiveSource(place_of_side(target.name, side), before=_ANY_POSITION)
            with open_source(inside) as log:
                end = _end(view_of(log), inside, (None, None))
                _copy(inside, where, _whole_end(inside, end), end)
            return
        except (LogNotFoundError, NotALogError, PositionError):
            shutil.rmtree(where, ignore_errors=True)  # an earlier one may have records


def _whole_end(archive: ArchiveSource, end: int) -> list[int]:
    """Return the segments behind the last gap: what is before was deleted, and not needed."""
    numbers = [ref.number for ref in archive.segments()]
    size = archive.segment_size
    for _, stop in holes(numbers, size):
        numbers = [each for each in numbers if each * size >= stop]
    found = [each for each in numbers if each * size + HEADER_SIZE < end]
    if not found:
        raise PositionError("no record is stored", path=archive.location, position=end)
    return found


def _copy_files(target: TarTarget, copy: LogCopy) -> Lineage | None:
    """Write the named tailers, queues and other files of a backup; return its epochs.

    They belong to the end of the backup: a tailer behind an earlier end would pass new records.
    """
    for name in target.files():
        parts = name.split("/")
        is_name = name.isprintable() and parts[-1] not in ("", ".", "..")
        if not is_name or ".." in parts or name.startswith("/"):
            raise CorruptSegmentError(
                f"this backup has a file with the name {name!r}: it was not written by commitlog",
                path=target.name,
            )
        if name not in _MADE_ANEW:
            copy.add_file(name, target.pieces(name))
    if "epoch" not in target.files():
        return None
    with target.open("epoch") as file:
        content = file.read()
    try:
        return Lineage(Lineage.parse(json.loads(content)).epochs)
    except (ValueError, AttributeError, RecursionError):
        raise CorruptSegmentError(
            "the epochs of this backup are damaged: use another copy", path=target.name
        ) from None
