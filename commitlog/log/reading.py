"""Open a log, an archive or a single segment for reading, without changing anything."""

from __future__ import annotations

import contextlib
from typing import cast

from commitlog._kernel.memory import Cursors
from commitlog.base.path import is_remote, opened_directory
from commitlog.base.polling import attempts
from commitlog.errors import CommitLogError, LogNotFoundError, PositionError
from commitlog.log.opened import NEVER_UNCERTAIN, Opened, check_options, refuse_foreign
from commitlog.options import Options, ready_wait_s
from commitlog.recovery.log_end import LogEnd, find_end
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import CursorsFile
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.stores.archived_directory import ArchivedDirectory
from commitlog.stores.detached import Detached, open_detached
from commitlog.stores.store import Store
from commitlog.stores.tiered_directory import TieredDirectory

_TRIES = 3


def open_for_reading(path: str, options: Options) -> Opened:
    if is_remote(path):
        return _open_remote(path, options)
    detached = open_detached(path, options.tuning.archive_cache)
    if detached is not None:
        return open_directory_of(detached)
    identity = _await_identity(path, options.wait_for_log or 0.0)
    check_options(identity, options, path)
    directory = _directory(path, identity, options)
    file = cursors_file.open_for_reading(directory.fd, identity)
    if file.usable:
        return Opened(directory, file.cells)
    return _stand_in(directory, file)


def _open_remote(path: str, options: Options) -> Opened:
    # Imported here, because most programs read no log of another machine.
    from commitlog.remote.remote_directory import RemoteDirectory, TieredRemoteDirectory

    cache_bytes = options.tuning.archive_cache
    place = path, cache_bytes, ready_wait_s(options)
    store = cast("Store | None", options.store)
    far = (
        RemoteDirectory(*place)
        if store is None
        else TieredRemoteDirectory(store, cache_bytes, *place)
    )
    return Opened(far, far.cells)


def _directory(path: str, identity: Identity, options: Options) -> LogDirectory:
    if options.store is None:
        return LogDirectory(path, identity)
    store = cast(Store, options.store)
    return TieredDirectory(store, options.tuning.archive_cache, path, identity)


def open_directory_of(directory: Detached, *, allow_hole: bool = False) -> Opened:
    """Open an archive or a single segment file, which no process writes in that place.

    With `allow_hole`, a store that lacks parts before others can be read up to there.
    """
    try:
        if isinstance(directory, ArchivedDirectory) and not allow_hole:
            directory.refuse_hole()
        end = directory.find_end()
    except BaseException:
        directory.close()
        raise
    cells = Cursors(-1, True)
    for name in ("appended", "committed", "flushed"):
        cells[name] = end
    return Opened(directory, cells, uncertain_from=end)


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


def _stand_in(directory: LogDirectory, file: CursorsFile) -> Opened:
    """Open with no live cursors: take the end from the files alone. Behind it, an invalid frame is
    not damage.
    """
    try:
        end = _find_end(directory)
    except BaseException:
        directory.close()
        raise
    for name, value in (
        ("appended", end.position),
        ("committed", end.position),
        ("flushed", end.known),
    ):
        file.cells[name] = value
    return Opened(
        directory, file.cells, uncertain_from=NEVER_UNCERTAIN if end.clean else end.position
    )


def _find_end(directory: LogDirectory) -> LogEnd:
    for _ in range(_TRIES):
        with contextlib.suppress(PositionError):  # a segment was deleted meanwhile
            return find_end(directory)
    return find_end(directory)
