"""Prune a log without opening it, also while writers have it open."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator

from commitlog.base.path import path_of, translate_refusals
from commitlog.base.polling import attempts
from commitlog.base.progress import Progress
from commitlog.errors import LogLockedError, LogNotFoundError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.known_durable import known_durable
from commitlog.retention.deletion import Waivable
from commitlog.retention.holds import Ends, copied_end
from commitlog.retention.pruner import LogState, Pruned, Pruner
from commitlog.retention.retention import Retention, checked
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import LockFile
from commitlog.source.source_registry import refuse_source

_PATIENCE_S = 10.0


def prune(
    path: str | os.PathLike[str],
    retention: Retention,
    *,
    dry_run: bool = False,
    force: Waivable | Collection[Waivable] = (),
    progress: Progress | None = None,
) -> Pruned:
    """Delete the segments of a log that a retention no longer keeps, also while the log is open.

    The call opens nothing for writing and allocates nothing, so it works on a full disk. A process
    that has a deleted segment mapped, such as a reader, keeps its data until it unmaps the segment.

    Parameters
    ----------
    path : path
        The log's directory.
    retention : Retention
        Which segments to delete.
    dry_run : bool
        Report what would be deleted, and delete nothing.
    force : {"store", "copies"}, or both
        Delete also what the log's store, or the required copies, do not have. What is not named is
        still kept. Records that only this log has are lost.
    progress : callable, optional
        Called now and then with the bytes of segments that are deleted, and their total. What it
        raises ends the call; the segments so far are deleted.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log.
    LogLockedError
        Another process recovers the log and does not finish in time.
    """
    with pruning(path, retention) as pruner:
        return pruner.prune(retention, None, dry_run=dry_run, force=force, progress=progress)


@contextlib.contextmanager
def pruning(given: str | os.PathLike[str], retention: Retention) -> Iterator[Pruner]:
    """Return the pruner of a log that is not opened."""
    path = path_of(given)
    checked(retention, path)
    with (
        translate_refusals(path),
        contextlib.closing(LogDirectory(path, _identity(path))) as directory,
    ):
        yield Pruner(directory, _state(directory))


def _identity(path: str) -> Identity:
    refuse_source(path)
    try:
        identity = identities.read_path(path)
    except FileNotFoundError:
        raise LogNotFoundError("there is no log here", path=path) from None
    if identity is None:
        raise identities.missing(path)
    return identity


def _state(directory: LogDirectory) -> LogState:
    def remove(number: int, force_after_s: float) -> None:
        with _no_recovery(directory):
            # Once this segment is deleted, only the next one's seal holds its first sequence.
            _sync_segment(directory, number + 1)
            directory.remove_segment(number)

    def check() -> None:
        if not os.access(directory.path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory.path)
        with _no_recovery(directory):
            pass

    return LogState(
        ends=lambda: _ends(directory), holders=lambda number: [], remove=remove, check=check
    )


def _ends(directory: LogDirectory) -> Ends:
    file = cursors_file.open_for_reading(directory.fd, directory.identity)
    if not file.usable:
        checkpoint = checkpoints.read(directory.fd, directory.log_uuid)
        return Ends(known_durable(directory, directory.segment_numbers(), checkpoint))
    return Ends(int(file.cells["flushed"]), copied_end(directory, file.cells))


def _sync_segment(directory: LogDirectory, number: int) -> None:
    with contextlib.suppress(FileNotFoundError), directory.opened_file(number) as fd:
        os.fsync(fd)


@contextlib.contextmanager
def _no_recovery(directory: LogDirectory) -> Iterator[None]:
    """Keep recoveries out while segments are deleted: they need the exclusive lock, which this
    handle's lock or a live writer's excludes.
    """
    lock_file = LockFile(directory.fd)
    try:
        for _ in attempts(_PATIENCE_S, f"the process that opens or recovers {directory.path}"):
            if lock_file.acquire("exclusive") or lock_file.acquire("shared"):
                break
            file = cursors_file.find(directory.fd, directory.identity)
            if file is not None and file.ready:
                break  # a pooled log, which its one writer has recovered
        else:
            raise LogLockedError(
                f"another process has been opening or recovering this log for {_PATIENCE_S:g} s: "
                "try again, or check for a stopped process",
                path=directory.path,
            )
        yield
    finally:
        lock_file.close()
