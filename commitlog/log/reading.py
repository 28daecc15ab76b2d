"""Open a log or a source for reading, without changing anything."""

from __future__ import annotations

import contextlib

from commitlog._kernel.memory import Cursors
from commitlog.base.path import opened_directory
from commitlog.base.polling import attempts
from commitlog.errors import CommitLogError, LogNotFoundError, PositionError
from commitlog.log.opened import NEVER_UNCERTAIN, Opened, check_options, refuse_foreign
from commitlog.options import Options
from commitlog.recovery.log_end import LogEnd, find_end
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import CursorsFile
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.source.source_directory import SourceDirectory
from commitlog.source.source_registry import open_source_directory
from commitlog.source.tiered_directory import TieredDirectory

_TRIES = 3


def open_for_reading(path: str, options: Options) -> Opened:
    elsewhere = open_source_directory(path, options)
    if elsewhere is not None:
        return open_source_log(elsewhere, options)
    identity = _await_identity(path, options.wait_for_log or 0.0)
    check_options(identity, options, path)
    directory = LogDirectory(path, identity)
    file = cursors_file.open_for_reading(directory.fd, identity)
    end = NEVER_UNCERTAIN if file.usable else _stand_in(directory, file)
    return Opened(_tiered(directory, options), file.cells, uncertain_from=end)


def open_source_log(directory: SourceDirectory, options: Options) -> Opened:
    """Open the log of a source, which no process writes in that place. This owns the directory,
    also if it raises.
    """
    try:
        directory.check()
        cells, end = _end_of(directory)
    except BaseException:
        directory.close()
        raise
    return Opened(
        _tiered(directory, options),
        cells,
        uncertain_from=end,
        places=directory.source.places,
        has_writers=False,
        asks=directory.growing is not None,
    )


def _end_of(directory: SourceDirectory) -> tuple[Cursors, int]:
    """Return the watermarks of a source, and from where on a bad frame is its end."""
    if directory.growing is not None:
        return directory.growing.cells, NEVER_UNCERTAIN
    end, cells = directory.end(), Cursors(-1, True)
    cells["appended"] = cells["committed"] = cells["flushed"] = end
    return cells, end


def _tiered(directory: LogDirectory, options: Options) -> LogDirectory:
    """Return a directory that continues below in the log's store, if it has one."""
    store = options.store
    if store is None:
        return directory
    return TieredDirectory(directory, store._open_source, options.tuning.archive_cache)


def _await_identity(path: str, wait_s: float) -> Identity:
    for _ in attempts(wait_s, f"a writer to create {path}"):
        found = _look_for_identity(path, waits=wait_s > 0)
        if isinstance(found, Identity):
            return found
        missing = found
    raise missing


def _look_for_identity(path: str, *, waits: bool) -> Identity | CommitLogError:
    """Read the identity, or return the error to raise if none appears in time.

    A directory that cannot become a log is refused at once.
    """
    try:
        with opened_directory(path) as fd:
            identity = identities.read(fd, path)
            if identity is not None:
                return identity
            if waits:
                refuse_foreign(fd, path)
    except FileNotFoundError:
        why = (
            "there is no log here, and a reader does not create one: check the path, or wait for "
            "its writer"
        )
        return LogNotFoundError(why, path=path)
    return identities.missing(path)


def _stand_in(directory: LogDirectory, file: CursorsFile) -> int:
    """Take the end from the files alone, because there are no live cursors. Return from where on an
    invalid frame is not damage.
    """
    try:
        end = _find_end(directory)
    except BaseException:
        directory.close()
        raise
    cells = file.cells
    cells["appended"] = cells["committed"] = end.position
    cells["flushed"] = end.known
    return NEVER_UNCERTAIN if end.clean else end.position


def _find_end(directory: LogDirectory) -> LogEnd:
    for _ in range(_TRIES):
        with contextlib.suppress(PositionError):  # a segment was deleted meanwhile
            return find_end(directory)
    return find_end(directory)
