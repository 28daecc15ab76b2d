"""Pruning a log from outside: beside its writers, in another process, or without any."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from commitlog.base.path import path_of, telling_of_refusals
from commitlog.base.polling import attempts
from commitlog.base.regular_file import opened_regular
from commitlog.base.units import Age
from commitlog.errors import InvalidOptionError, LogLockedError, LogNotFoundError, NotALogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.retention.archive import Archive
from commitlog.retention.archived import refuse_archive
from commitlog.retention.pruner import LogState, Pruned, Pruner
from commitlog.retention.retention import Retention
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import LockFile
from commitlog.tail.tailer_state import lowest_required

_PATIENCE_S = 10.0


def prune(path: str | os.PathLike[str], retention: Retention, *, dry_run: bool = False) -> Pruned:
    """Delete the segments of a log that a retention no longer keeps, also while the log is open.

    The call opens nothing for writing and allocates nothing, so it works on a full disk. A process
    that has a deleted segment mapped, such as a reader, keeps its data until it unmaps the segment.

    Parameters
    ----------
    path : path
        The log's directory.
    retention : Retention
        Which segments may go.
    dry_run : bool
        Only say what would go.

    Returns
    -------
    Pruned

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log.
    LogLockedError
        Another process recovers the log, and does not finish in time.
    """
    return _prune(path, retention, dry_run=dry_run, keep=False)


def _prune(
    given: str | os.PathLike[str], retention: Retention, *, dry_run: bool, keep: bool
) -> Pruned:
    path = path_of(given)
    if not isinstance(retention, Retention):
        raise InvalidOptionError(
            f"retention must be a commitlog.Retention, not {type(retention).__name__}"
        )
    with telling_of_refusals(path):
        identity = _identity(path)
        with contextlib.closing(
            LogDirectory(path, identity.segment_size, identity.uuid, identity.roll_cycle)
        ) as directory:
            return Pruner(directory, _state(directory, identity)).prune(
                retention, dry_run=dry_run, keep=keep
            )


def archive_segments(
    path: str | os.PathLike[str],
    archive: Archive,
    *,
    older_than: Age = "0s",
    keep: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Archive the segments of a log that may go, oldest first, and delete each when it is whole and
    durable there.

    What is there already is not written again, so that a run that was ended is resumed by the next.

    Parameters
    ----------
    path : path
        The log's directory.
    archive : Archive
        Where to.
    older_than : str or datetime.timedelta
        Only those that the log rolled on from so long ago; text has a unit, such as ``"7d"``.
    keep : bool
        Delete nothing: archive every sealed and durable segment, also those that would have to
        stay.
    dry_run : bool
        Only say what would go.

    Raises
    ------
    CorruptSegmentError
        A segment is damaged: it stays, and so do those behind it.
    LogExistsError, IOFailureError
        The target is another log's, or refuses.
    """
    return _prune(path, Retention(max_age=older_than, archive=archive), dry_run=dry_run, keep=keep)


def _identity(path: str) -> Identity:
    refuse_archive(path)
    try:
        identity = identities.read_path(path)
    except FileNotFoundError:
        raise LogNotFoundError("there is no log here", path=path) from None
    if identity is None:
        raise NotALogError(
            f"this directory has no {identities.NAME}: it is not a log, or has lost its identity",
            path=path,
        )
    return identity


def _state(directory: LogDirectory, identity: Identity) -> LogState:
    def flushed_position() -> int:
        file = cursors_file.open_for_reading(directory.fd, identity)
        if file.usable:
            return int(file.cells["flushed"])
        checkpoint = checkpoints.read(directory.fd, identity.uuid)
        return 0 if checkpoint is None else checkpoint.position

    def remove(number: int) -> None:
        with _no_recovery(directory, identity):
            # The seal of what stays says with which sequence it begins; once the segments before it
            # are gone, nothing else does.
            _sync_segment(directory, number + 1)
            directory.remove_segment(number)

    def check() -> None:
        if not os.access(directory.path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory.path)
        with _no_recovery(directory, identity):
            pass

    return LogState(
        flushed_position=flushed_position,
        lowest_required=lambda: lowest_required(directory),
        holders=lambda number: [],
        remove=remove,
        settle=directory.sync,
        check=check,
    )


def _sync_segment(directory: LogDirectory, number: int) -> None:
    name = segment_name(number * directory.segment_size)
    with contextlib.suppress(FileNotFoundError), opened_regular(name, dir_fd=directory.fd) as fd:
        os.fsync(fd)


@contextlib.contextmanager
def _no_recovery(directory: LogDirectory, identity: Identity) -> Iterator[None]:
    """Segments do not go while a recovery walks over them. It needs the lock for itself: here it is
    kept from it, or a live writer is.
    """
    lock_file = LockFile(directory.fd)
    try:
        for _ in attempts(_PATIENCE_S, f"the process that opens or recovers {directory.path}"):
            if lock_file.acquire("exclusive") or lock_file.acquire("shared"):
                break
            file = cursors_file.find(directory.fd, identity)
            if file is not None and file.ready:
                break  # a pooled log, whose one writer is through with it
        else:
            raise LogLockedError(
                f"another process has been opening or recovering this log for {_PATIENCE_S:g} s: "
                "try again, or look for a stopped one",
                path=directory.path,
            )
        yield
    finally:
        lock_file.close()
