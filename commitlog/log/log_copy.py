"""LogCopy: write a new log from whole segments, in any order, the identity last."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Self

from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory, open_directory, sync_directory
from commitlog.errors import LogExistsError
from commitlog.flush import checkpoint as checkpoints
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes


class LogCopy:
    """Write the segments of a log into an empty directory; a context manager.

    Before `finish`, the directory is no log. If the block raises, the directory is empty again.

    Parameters
    ----------
    path : str
        The directory; a missing one is created.
    identity : Identity
        The log.

    Attributes
    ----------
    notes : Notes
        The small files of extensions that belong to the copy.

    Raises
    ------
    LogExistsError
        The directory is not empty, or another process writes a copy there.
    """

    def __init__(self, path: str, identity: Identity) -> None:
        self._path = path
        self._identity = identity
        make_directory(path)
        with ExitStack() as undo:
            self._fd = open_directory(path)
            undo.callback(os.close, self._fd)
            if _is_locked(self._fd):
                raise LogExistsError(
                    "another process restores a log here: wait for it, or restore into a new "
                    "directory",
                    path=path,
                )
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
                for each in os.scandir(self._path):
                    if each.is_dir(follow_symlinks=False):
                        shutil.rmtree(each.path)
                    else:
                        os.unlink(each.path)
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

    def finish(self, end: int, known: Lineage | None = None) -> None:
        """Make a log of the segments, which ends at a position; durably."""
        if known is not None:
            Epochs(self._directory).write(known)
        # All of it is durable: a bad frame in it is damage, and no torn tail.
        checkpoints.write(self._fd, self._identity.uuid, end, clean=True)
        os.fsync(self._fd)
        failpoint("segments durable")
        identities.write(self._fd, self._identity)
        failpoint("log restored")
        sync_directory(os.path.dirname(os.path.realpath(self._path)))


def _is_locked(fd: int) -> bool:
    """Lock a directory; return whether another process has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        pass
    return False
