"""Targets: the folder of an archive, in a directory, an object store or a store of pyarrow."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from commitlog.base import temporary_file
from commitlog.base.failpoint import failpoint
from commitlog.base.path import make_directory
from commitlog.base.polling import attempts
from commitlog.base.regular_file import open_regular
from commitlog.errors import CommitLogError, InvalidOptionError, IOFailureError
from commitlog.errors.advice import with_advice
from commitlog.stores.arrow_target import ArrowTarget, pyarrow_fs
from commitlog.stores.object_target import SCHEMES, ObjectTarget, is_object_store
from commitlog.stores.tar_target import SUFFIX, TarTarget

_PUTS_A_SWEEP = 256
_SWEEP_S = 5.0  # a sweep of a folder takes milliseconds
_LISTINGS_MOST = 5

Write = Callable[[BinaryIO], object]


def target_of(place: str | os.PathLike[str], filesystem: object = None) -> Target:
    """Return the target that a path or an address names.

    Parameters
    ----------
    place : str or path
        A directory, or an address such as ``s3://bucket/orders`` that obstore, pyarrow or fsspec
        can open.
    filesystem : store of obstore, pyarrow.fs.FileSystem or fsspec file system, optional
        The store or file system in which `place` is a path. A store of obstore has its prefix
        already, and `place` is its name in messages.

    Raises
    ------
    InvalidOptionError
        The path or address is not valid.
    IOFailureError
        The store cannot be reached.
    ModuleNotFoundError
        obstore or pyarrow is not installed: ``pip install 'commitlog-engine[archive]'``.
    """
    try:
        text = os.fsdecode(place)
    except TypeError:
        text = ""
    if not text or "\0" in text:
        raise InvalidOptionError(
            f"target must be a directory or an address such as 's3://bucket/orders', not {place!r}"
        )
    if filesystem is not None:
        return _of_filesystem(filesystem, text)
    if not is_address(text):
        is_tar = text.endswith(SUFFIX) and not os.path.isdir(text)
        return TarTarget(text) if is_tar else LocalTarget(text)
    _refuse_cut_short(text)
    if text.startswith("file://"):
        import urllib.parse

        parts = urllib.parse.urlsplit(text)
        if parts.netloc in ("", "localhost") and parts.path.startswith("/"):
            return LocalTarget(urllib.parse.unquote(parts.path))
        raise InvalidOptionError(
            f"target must have an absolute local path after file://, not {text!r}"
        )
    if text.partition("://")[0] in SCHEMES:
        return ObjectTarget.at(text)
    return _of_address(text)


def _refuse_cut_short(text: str) -> None:
    """Refuse an address of which its library would drop the end."""
    scheme = text.partition("://")[0]
    # pyarrow takes options behind "?".
    cutting = "#?" if scheme in ("file", *SCHEMES) else "#"
    if any(sign in text for sign in cutting):
        raise InvalidOptionError(
            f"target must not have {' or '.join(cutting)} in its address, because what follows is "
            f"dropped, so another place would be used: write %23 for # and %3F for ?, not {text!r}"
        )


def is_address(text: str) -> bool:
    """Return whether a text is an address, and not a path."""
    return "://" in text


def _of_address(text: str) -> Target:
    pa_fs = pyarrow_fs()
    import pyarrow as pa

    with reading(text):
        try:
            filesystem, path = pa_fs.FileSystem.from_uri(text)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            filesystem, path = _of_fsspec(text)
    return ArrowTarget(filesystem, path, text)


def _of_fsspec(text: str) -> tuple[Any, str]:
    try:
        import fsspec

        found, path = fsspec.core.url_to_fs(text)
    except (ImportError, ValueError) as error:
        raise InvalidOptionError(
            f"target must be an address that pyarrow or fsspec can open, not {text!r}: {error}"
        ) from None
    pa_fs = pyarrow_fs()
    return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(found)), path


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Translate errors of reading a target into commitlog's own, except a missing file.

    A library's file system may raise any exception, with a message of many lines.
    """
    with _translate_errors(path, "read"):
        yield


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Do the same for errors of writing a target."""
    with _translate_errors(path, "written"):
        yield


@contextlib.contextmanager
def _translate_errors(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except (CommitLogError, FileNotFoundError):
        raise
    except Exception as error:
        text = str(getattr(error, "strerror", None) or error)
        why = " ".join(text.split()) or type(error).__name__
        number = error.errno if isinstance(error, OSError) else None
        raise IOFailureError(
            f"the archive cannot be {done}: {with_advice(why, number)}", path=path, errno=number
        ) from error


def _of_filesystem(filesystem: object, path: str) -> Target:
    if is_object_store(filesystem):
        return ObjectTarget(filesystem, path)
    pa_fs = pyarrow_fs()
    if not isinstance(filesystem, pa_fs.FileSystem):
        if not hasattr(filesystem, "open") or not hasattr(filesystem, "protocol"):
            raise InvalidOptionError(
                "filesystem must be one of obstore, pyarrow.fs or fsspec, not "
                f"{type(filesystem).__name__}"
            )
        filesystem = pa_fs.PyFileSystem(pa_fs.FSSpecHandler(filesystem))
    return ArrowTarget(filesystem, path, path)


class LocalTarget:
    """A directory of this machine. A file is written under a temporary name, synced and renamed."""

    conditional = True  # `put` without `replace` never replaces a file, of any writer

    def __init__(self, path: str) -> None:
        self.name = path  # for messages
        self.requests = 0  # calls so far, for figures
        self._puts_until_sweep = 0

    def names(self) -> list[str]:
        """List the files, in no order; an empty list if the folder does not exist."""
        self.requests += 1
        try:
            return [name for name in os.listdir(self.name) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def sizes(self) -> dict[str, int]:
        """Return the size of each file.

        The entries of a directory that is being changed are no snapshot: a file that was added
        meanwhile may be missing, and so may the files that it covers, which were deleted after
        that. So the directory is listed until its files stay the same.
        """
        names, found = set[str](), dict[str, int]()
        for _ in range(_LISTINGS_MOST):
            before, names, found = names, set(self.names()), {}
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    found[name] = os.stat(self.path_of(name)).st_size
            if names == before == found.keys():
                break
        return found

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if it is missing."""
        self.requests += 1
        try:
            return os.stat(self.path_of(name)).st_size
        except FileNotFoundError:
            return None

    def open(self, name: str, most: int | None = None) -> BinaryIO:
        """Open a file, to be read once from its beginning; the caller reads `most` bytes of it."""
        self.requests += 1
        return open(open_regular(self.path_of(name), follow=True), "rb")

    def path_of(self, name: str) -> str:
        return os.path.join(self.name, name)

    def check(self) -> None:
        """Raise what `put` would, as far as that can be known without writing."""
        place = os.path.abspath(self.name)
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)

    def put(self, name: str, write: Write, *, replace: bool = True) -> bool:
        """Write a file whole and durably. Without `replace`, return False if there is one of that
        name.
        """
        self.requests += 1
        make_directory(self.name)
        with self._opened() as folder_fd:
            with temporary_file.temporary_file(folder_fd, name) as (fd, temporary):
                with open(fd, "wb", closefd=False) as file:
                    write(file)
                failpoint("archive file written")
                os.fsync(fd)
                if replace:
                    os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                elif not temporary_file.put_in_place(folder_fd, temporary, name):
                    return False
            try:
                failpoint("archive file renamed")
                os.fsync(folder_fd)
            except BaseException:
                # The system reports the error only once: the next run would treat the file as
                # durable.
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder_fd)
                raise
            failpoint("archive folder synced")
        return True

    def delete(self, names: list[str]) -> None:
        """Delete files; a missing one is no error."""
        self.requests += 1
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path_of(name))

    def sweep(self) -> None:
        """Do nothing: each put removes what killed processes left."""

    def settle(self) -> None:
        """Make all file names durable; a killed process may have left the last one unsynced."""
        with self._opened() as folder_fd:
            os.fsync(folder_fd)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder with a shared lock; remove temporary files if no process has a lock, but
        not at each put, because that lists the folder.

        A process that sweeps has the exclusive lock for a moment, so the shared lock is awaited.
        Any user who can read the folder can lock it, so the wait is bounded.
        """
        fd = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self._puts_until_sweep <= 0 and _locked(fd, fcntl.LOCK_EX):
                temporary_file.sweep(fd)
                self._puts_until_sweep = _PUTS_A_SWEEP
                failpoint("archive folder swept")
            for _ in attempts(_SWEEP_S, f"the process that locks {self.name}"):
                if _locked(fd, fcntl.LOCK_SH):
                    break
            self._puts_until_sweep -= 1
            yield fd
        finally:
            os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    """Lock a folder, if no other process has a lock that excludes this one."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks: there, nothing is swept, and no lock is needed.
        return kind == fcntl.LOCK_SH and not isinstance(error, BlockingIOError)
    return True


Target = LocalTarget | ObjectTarget | ArrowTarget | TarTarget
