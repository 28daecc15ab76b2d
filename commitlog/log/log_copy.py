"""LogCopy: write a new log from whole segments, in any order, the identity last."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Self

from commitlog._kernel.readers import TAILER_SIZE, new_page
from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory, open_directory, sync_directory
from commitlog.base.regular_file import write_whole
from commitlog.errors import LogExistsError
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery import epochs
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage
from commitlog.segment import checked_json
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.new_file import put_new_file
from commitlog.segment.notes import Notes
from commitlog.tail import tailer_file, tailer_folder
from commitlog.tail.tailer_state import TailerState


class LogCopy:
    """Write the segments of a log into an empty directory; a context manager.

    Before `finish`, the directory is no log. If the block raises, the directory is empty again.

    Parameters
    ----------
    path : str
        The directory; a missing one is created.
    identity : Identity
        The log.
    again : bool
        Remove first what a killed process has left of an earlier copy there.

    Attributes
    ----------
    notes : Notes
        The small files of extensions that belong to the copy.

    Raises
    ------
    LogExistsError
        The directory is not empty, or another process writes a copy there.
    """

    def __init__(self, path: str, identity: Identity, *, again: bool = False) -> None:
        self._path = path
        self._identity = identity
        make_directory(path)
        with ExitStack() as undo:
            self._fd = open_directory(path)
            undo.callback(os.close, self._fd)
            if _is_locked(self._fd):
                what = "makes this backup" if again else "restores a log here"
                raise LogExistsError(
                    f"another process {what}: wait for it, or use a new directory", path=path
                )
            if again:
                _empty(path)
            if os.listdir(path):
                raise LogExistsError(
                    "the directory is not empty: restore into a new or an empty one", path=path
                )
            self._directory = LogDirectory(path, identity)
            self.notes = Notes(self._directory)
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                _empty(self._path)
        finally:
            self._directory.close()
            os.close(self._fd)

    def add_segment(self, number: int, write: Callable[[BinaryIO], object], *, last: bool) -> None:
        """Add a segment, which `write` writes to a file, and make it durable. Appends continue in
        the `last` one, so all of it gets blocks: a full disk must not turn a store into SIGBUS.
        """
        size = self._identity.segment_size
        with open(os.path.join(self._path, segment_name(number * size)), "xb") as file:
            write(file)
            if last:
                os.posix_fallocate(file.fileno(), 0, size)
            os.fsync(file.fileno())
        failpoint("segment restored")

    def link_segment(self, number: int, path: str) -> None:
        """Add a segment that is another name of a file, which nothing changes any more; where the
        file system has no such names, a copy of the file.
        """
        name = os.path.join(self._path, segment_name(number * self._identity.segment_size))
        try:
            os.link(path, name)
        except FileNotFoundError:
            raise
        except OSError:  # no links here, or another file system
            shutil.copyfile(path, name)
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def remove_segment(self, number: int) -> None:
        """Remove a segment that was added."""
        self._directory.remove_segment(number)

    # --- what else a log's directory has ----------------------------------------------------------

    def add_file(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add a file of an extension durably, by its path in the log's directory."""
        path = os.path.join(self._path, name)
        make_directory(os.path.dirname(path))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            size = 0
            for piece in pieces:
                write_whole(fd, piece, size)
                size += len(piece)
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(os.path.dirname(path))

    def add_tailer(self, state: TailerState, end: int) -> None:
        """Add a named tailer, which has read nothing behind the end of the copy, with its terms."""
        assert state.position is not None
        tailer_folder.make_folder(self._directory)
        # A tailer behind the end would pass what is appended there to the copy.
        position = min(state.position, self._identity.past_header(end))
        page = new_page(self._identity.uuid, position, time.time_ns())
        with tailer_folder.opened_folder(self._directory) as folder_fd:
            put_new_file(folder_fd, state.name, page, TAILER_SIZE)
            os.fsync(folder_fd)
        if state.required:
            file = tailer_file.open_page(self._directory, state.name)
            file.change_terms(
                self._identity.uuid, required=True, max_lag_bytes=state.max_lag_bytes or 0
            )
            file.sync()
            file.close()

    # --- the end ----------------------------------------------------------------------------------

    def finish(self, end: int, known: Lineage | None = None) -> None:
        """Make a log of the segments, which ends at a position; durably."""
        if known is not None and known.follows is not None:
            Epochs(self._directory).write(known)
        elif known is not None:
            # Without place and id, which each copy of this directory gets when it is written.
            checked_json.write(self._directory, epochs.NAME, known.content())
        # All of it is durable: a bad frame in it is damage, and no torn tail.
        checkpoints.write(self._fd, self._identity.uuid, end, clean=True)
        os.fsync(self._fd)
        failpoint("segments durable")
        identities.write(self._fd, self._identity)
        failpoint("log restored")
        sync_directory(os.path.dirname(os.path.realpath(self._path)))


def _empty(path: str) -> None:
    """Remove everything in a directory."""
    with os.scandir(path) as found:
        for each in found:
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path)
            else:
                os.unlink(each.path)


def _is_locked(fd: int) -> bool:
    """Lock a directory; return whether another process has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        pass
    return False
