"""Workplace: a hidden folder beside a path, in which a backup is written before it takes the path.

So the path has the earlier backup, or nothing, until the new one is whole, durable and verified.
What a killed backup leaves is removed by the next one to that path.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterator

from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory, opened_directory, sync_directory
from commitlog.base.temporary_file import put_in_place
from commitlog.errors import InvalidOptionError, LogExistsError

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Workplace:
    """The folder beside a path.

    Attributes
    ----------
    path : str
        Where the backup is to be; absolute. A link to a directory is followed: the backup belongs
        on the file system that it leads to.
    work : str
        The folder. The first copy that is written there locks it, so that of two backups to one
        path the second one is refused.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        if os.path.isdir(self.path):
            self.path = os.path.realpath(self.path)
        self.parent, self.name = os.path.split(self.path)
        if not self.name:
            raise InvalidOptionError(f"to must name a directory to create, not {path!r}")
        self.work = os.path.join(self.parent, f".{self.name}.backup.tmp")
        self._aside = os.path.join(self.parent, f".{self.name}.earlier.tmp")

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Make the parent, and remove an empty folder after the block."""
        make_directory(self.parent)
        self._check_own()
        if os.path.isdir(self._aside) and not os.path.lexists(self.path):
            os.rename(self._aside, self.path)  # a kill between the two renames of `replace`
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.rmdir(self.work)

    def _check_own(self) -> None:
        """Refuse what no backup has made: all that is in the folders is removed."""
        for each in (self.work, self._aside):
            if os.path.lexists(each) and (os.path.islink(each) or not os.path.isdir(each)):
                raise LogExistsError(
                    "a backup is written in a directory of this name, and there is a link or a "
                    "file: remove it, or give another path",
                    path=each,
                )

    def check_free(self) -> None:
        """Refuse a path that has something, other than an empty directory."""
        if os.path.ismount(self.path):
            raise LogExistsError(
                "a file system is mounted at this path, and a backup gets its path by a rename: "
                "give a path in it",
                path=self.path,
            )
        if os.path.isdir(self.path) and not os.listdir(self.path):
            return
        if os.path.lexists(self.path):
            raise LogExistsError(
                "there is something at this path already: give a new one, or continue an earlier "
                "backup with `--incremental`, incremental=True",
                path=self.path,
            )

    def check_absent(self) -> None:
        """Refuse a path that has anything."""
        if os.path.lexists(self.path):
            raise LogExistsError(
                "there is something at this path already: give a new one", path=self.path
            )

    def clear(self, *paths: str) -> None:
        """Remove files and directories of the folder, if they are there."""
        for path in paths:
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def check_outside(self, folder: str | None) -> None:
        """Refuse a path in a log's directory, where its files would be mistaken for others."""
        if folder is not None:
            own = os.path.realpath(folder)
            if os.path.commonpath((own, os.path.realpath(self.path))) == own:
                raise LogExistsError(
                    "a backup cannot be in the directory of its log: give another path",
                    path=self.path,
                )

    def place(self, written: str) -> None:
        """Give the path to what was written, a directory or a file, durably; it must be free."""
        try:
            if os.path.isdir(written):
                os.rename(written, self.path)  # also over an empty directory
            else:
                _rename_to_free(written, self.path)
        except OSError:
            self.check_free()
            raise
        failpoint("backup placed")
        sync_directory(self.parent)

    def replace(self) -> None:
        """Give the path to the folder, and remove the earlier backup that was there."""
        if _exchange(self.work, self.path):
            failpoint("backup placed")
            earlier = self.work
        else:
            shutil.rmtree(self._aside, ignore_errors=True)
            os.rename(self.path, self._aside)
            failpoint("earlier backup aside")
            os.rename(self.work, self.path)
            failpoint("backup placed")
            earlier = self._aside
        sync_directory(self.parent)
        shutil.rmtree(earlier, ignore_errors=True)


def _rename_to_free(file: str, path: str) -> None:
    """Rename a file, unless there is one of that name."""
    folder, name = os.path.split(path)
    with opened_directory(folder) as fd:
        if not put_in_place(fd, os.path.relpath(file, folder), name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _exchange(one: str, other: str) -> bool:
    """Exchange the names of two directories at once; return False if the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    failed = ctypes.get_errno()
    if failed in _UNSUPPORTED:
        return False
    raise OSError(failed, os.strerror(failed), other)
