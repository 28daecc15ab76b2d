"""TailerFile: the file `tailers/<name>`, which one tailer at a time owns.

Other handles may move or delete a tailer that is not open, and change the terms of any.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator

from commitlog._kernel.readers import TAILER_SIZE, DamagedPageError, TailerPage, new_page, read_page
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.failpoint import failpoint
from commitlog.base.path import translate_errors
from commitlog.base.process import pid_namespace
from commitlog.base.regular_file import write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.base.units import Duration
from commitlog.errors import CommitLogError, InUseError, IOFailureError
from commitlog.segment.directory import LogDirectory
from commitlog.segment.new_file import put_new_file
from commitlog.tail import tailer_folder
from commitlog.tail.tailer_folder import (
    TailerLock,
    TailerLockedError,
    make_folder,
    opened_file,
    opened_folder,
    sync_names,
    tailer_path,
    terms_locked,
    translate_refusals,
)
from commitlog.tail.tailer_state import TailerState, read_state, states

# Notifies writers of a change of the required tailers. The caller holds the lock on terms and has
# changed nothing yet: a writer that checks meanwhile finds the lock held, and checks again. If the
# caller dies, it has either notified the writers or changed nothing.
Notify = Callable[[], None]
Durable = bool | Duration  # whether, or how often, a position is flushed
_ATTEMPTS = 100  # other processes may create and delete the same name meanwhile
_logger = logging.getLogger("commitlog")


class TailerFile:
    """Own the file of a named tailer until `close` or the process's death; a new tailer is at
    `start`.

    `page` holds the position. `created`: there was no tailer of that name before. If another
    tailer, in this process or another, uses the name, raise `InUseError`; if the file is
    damaged, `CorruptTailerError`.
    """

    def __init__(self, directory: LogDirectory, name: str, start: int) -> None:
        self.name = name
        self.path = tailer_path(directory, name)
        self.created = False
        self._directory = directory
        with translate_refusals(directory, name):
            make_folder(directory)
            failpoint("folder made")
            with opened_folder(directory) as folder_fd:
                self._lock, self.page = self._take(folder_fd, start)
                try:
                    self._own(folder_fd)
                except BaseException:
                    self._lock.close()
                    raise
        # A lock that outlives its tailer would keep the name, also in children of a fork.
        self._dropped = weakref.finalize(self, _release, self.page, self._lock)
        self._dropped.atexit = False

    def _take(self, folder_fd: int, start: int) -> tuple[TailerLock, TailerPage]:
        for _ in range(_ATTEMPTS):
            try:
                lock = _lock(self._directory, folder_fd, self.name)
            except FileNotFoundError:
                with contextlib.suppress(FileNotFoundError):  # swept meanwhile: try again
                    blank = new_page(self._directory.log_uuid, start, time.time_ns())
                    self.created |= put_new_file(folder_fd, self.name, blank, TAILER_SIZE)
                continue
            try:
                return lock, _map(self._directory, folder_fd, self.name)
            except BaseException:
                lock.close()
                raise
        raise IOFailureError(
            "other processes keep creating and deleting this tailer: try again",
            path=self.path,
            errno=errno.EAGAIN,
        )

    def _own(self, folder_fd: int) -> None:
        """Record the owner; the first owner makes the name durable, because the process that
        created the file may have died before.
        """
        log_uuid = self._directory.log_uuid
        if read_page(self.page.content(), log_uuid)["owned_ns"] == 0:
            sync_names(self._directory, folder_fd)
            failpoint("names synced")
        with terms_locked(self._directory, self.name):
            self.page.change_terms(log_uuid, owner=(os.getpid(), pid_namespace(), time.time_ns()))

    def declare(self, required: bool, max_lag_bytes: int, notify: Notify) -> None:
        """Change durably whether the tailer is required."""
        with (
            translate_refusals(self._directory, self.name),
            terms_locked(self._directory, self.name),
        ):
            notify()
            failpoint("writers notified")
            self.page.change_terms(
                self._directory.log_uuid,
                required=required,
                max_lag_bytes=max_lag_bytes,
                evicted_ns=0,
            )
            failpoint("terms written")
        self.page.sync()

    def close(self) -> None:
        """Release the name. Idempotent."""
        if self._dropped.detach() is None:
            return
        try:
            self.page.close()
        finally:
            self._lock.close()

    def abandon(self) -> None:
        """Release the name, and write nothing."""
        if self._dropped.detach() is not None:
            self._lock.close()


def _release(page: TailerPage, lock: TailerLock) -> None:
    """Close the file of a tailer that was dropped without `close`."""
    try:
        with contextlib.suppress(IOFailureError):
            page.close()
    finally:
        lock.close()


def _lock(directory: LogDirectory, folder_fd: int, name: str) -> TailerLock:
    """Lock a tailer's file through its own open file description.

    The description of the mapping would also be held by forked children. A call that deletes or
    replaces the file locks it first; raise `FileNotFoundError` if one has done so.
    """
    try:
        lock = TailerLock(directory.fd, folder_fd, name)
    except TailerLockedError as refusal:
        path = tailer_path(directory, name)
        if refusal.owned:
            holder = read_state(directory, name).owner or "another process"
            message = (
                f"tailer {name!r} is read by {holder} already: close it there, or use another name"
            )
        else:
            holder = "another process"
            message = (
                f"another process has a shared lock on the file of tailer {name!r} and may read "
                "with it: close it there, use another name, or remove read permission from users "
                "who cannot write the file"
            )
        raise InUseError(message, path=path, holder=holder) from None
    try:
        there = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if there.st_ino != os.fstat(lock.descriptor).st_ino:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    except BaseException:
        lock.close()
        raise
    return lock


def _map(directory: LogDirectory, folder_fd: int, name: str) -> TailerPage:
    with opened_file(folder_fd, name, os.O_RDWR) as fd:
        page = TailerPage(fd, tailer_path(directory, name))
    read_page(page.content(), directory.log_uuid)
    return page


# --- others' tailers ------------------------------------------------------------------------------


def reset(directory: LogDirectory, name: str, position: int, notify: Notify) -> None:
    """Set the position of a closed tailer; replace a damaged file by a non-required one."""
    with _held(directory, name) as folder_fd, terms_locked(directory, name):
        notify()
        failpoint("writers notified")
        _place_anew(directory, folder_fd, name, position)


def _place_anew(directory: LogDirectory, folder_fd: int, name: str, position: int) -> None:
    try:
        page = _map(directory, folder_fd, name)
    except DamagedPageError:
        # The damaged file goes first: the lock is on this file, so it cannot be replaced in one
        # step.
        os.unlink(name, dir_fd=folder_fd)
        failpoint("damage removed")
        put_new_file(
            folder_fd, name, new_page(directory.log_uuid, position, time.time_ns()), TAILER_SIZE
        )
    else:
        page.save(position)
        page.sync()
    sync_names(directory, folder_fd)


def delete(directory: LogDirectory, name: str, notify: Notify) -> None:
    """Delete a tailer that is not open."""
    with _held(directory, name) as folder_fd:
        with terms_locked(directory, name):
            notify()
            failpoint("writers notified")
            os.unlink(name, dir_fd=folder_fd)
            failpoint("deleted")
        os.fsync(folder_fd)


@contextlib.contextmanager
def _held(directory: LogDirectory, name: str) -> Iterator[int]:
    """Lock a tailer that is not open; yield the folder's descriptor."""
    with (
        translate_refusals(directory, name),
        opened_folder(directory) as folder_fd,
        contextlib.closing(_lock(directory, folder_fd, name)),
    ):
        yield folder_fd


def open_page(directory: LogDirectory, name: str) -> TailerPage:
    """Map the file of a tailer that another handle may own, for its position and its terms."""
    with (
        translate_refusals(directory, name),
        opened_folder(directory) as folder_fd,
        opened_file(folder_fd, name, os.O_RDWR) as fd,
    ):
        return TailerPage(fd, tailer_path(directory, name))


def evict(directory: LogDirectory, name: str, notify: Notify) -> bool:
    """Evict a tailer, open or not, and keep its position; return False if it was not required."""
    page = open_page(directory, name)
    with translate_refusals(directory, name):
        with terms_locked(directory, name):
            required = read_page(page.content(), directory.log_uuid)["required"]
            if required:
                notify()
                failpoint("writers notified")
            # Also if it is evicted already: an earlier try may not have reached the disk.
            page.change_terms(
                directory.log_uuid, required=False, evicted_ns=time.time_ns() if required else None
            )
            failpoint("terms written")
        page.sync()
    return required


def cut_back(directory: LogDirectory, end: int) -> None:
    """Move tailers that are behind the log's end back to it. Requires the log's exclusive lock.

    What they had read there was cut off, and other records will take its place.
    """
    offset = end % directory.segment_size
    end += max(0, HEADER_SIZE - offset)  # where the next record goes
    for state in states(directory):
        if state.position is not None and state.position > end:
            _move(directory, state, end, "to the log's end")


def replace_files(directory: LogDirectory) -> None:
    """Put a copy of each tailer's file in its place. Requires the log's exclusive lock.

    Tailers that are open stay behind with the old files: they read the log as it was before a cut.
    """
    for name in tailer_folder.names(directory):
        with (
            contextlib.suppress(DamagedPageError, FileNotFoundError),
            translate_errors(tailer_path(directory, name), "replace the file of a tailer"),
            opened_folder(directory) as folder_fd,
        ):
            _replace_file(directory, folder_fd, name)


def _replace_file(directory: LogDirectory, folder_fd: int, name: str) -> None:
    content = _map(directory, folder_fd, name).content()
    with temporary_file(folder_fd, name) as (fd, temporary):
        write_whole(fd, content, 0)
        os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    failpoint("tailer replaced")
    os.fsync(folder_fd)


def inside_skips(directory: LogDirectory) -> Iterator[tuple[TailerState, int]]:
    """Yield the tailers whose position is inside a SKIP, and the position behind it."""
    for state in states(directory):
        with contextlib.suppress(CommitLogError):  # its segment is damaged
            if (
                state.position is not None
                and (landing := directory.landing(state.position)) != state.position
            ):
                yield state, landing


def step_out(directory: LogDirectory) -> None:
    """Move tailers that are inside a SKIP behind it. Requires the log's exclusive lock."""
    for state, landing in inside_skips(directory):
        go_on_at(directory, state, landing)


def go_on_at(directory: LogDirectory, state: TailerState, landing: int) -> None:
    """Move a tailer that is inside a SKIP behind it."""
    _move(directory, state, landing, "past the SKIP frame there")


def _move(directory: LogDirectory, state: TailerState, position: int, where: str) -> None:
    try:
        with _held(directory, state.name) as folder_fd:
            _place_anew(directory, folder_fd, state.name, position)
    except CommitLogError as error:
        _logger.error(
            "tailer %r of %s is at %s and cannot be moved %s: %s",
            state.name,
            directory.path,
            state.position,
            where,
            error,
        )
    else:
        _logger.warning(
            "tailer %r of %s was at %s and is moved to %d, %s",
            state.name,
            directory.path,
            state.position,
            position,
            where,
        )
