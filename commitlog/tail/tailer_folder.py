"""The folder `tailers`: its names, the lock under which terms change, and its errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from commitlog._kernel.readers import TAILER_SIZE, DamagedPageError
from commitlog.base import temporary_file
from commitlog.base.folder_lock import lock_folder
from commitlog.base.life_lock import LifeLock, is_held, open_lock_file
from commitlog.base.path import translate_errors
from commitlog.base.polling import attempts
from commitlog.base.regular_file import open_regular, opened_regular
from commitlog.errors import (
    CommitLogError,
    CorruptTailerError,
    IOFailureError,
    TailerNotFoundError,
)
from commitlog.segment import lock_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.lock_file import TERMS, tailer_span

FOLDER = "tailers"
_TERMS_WAIT_S = 5.0
# A change takes milliseconds, so a lock on the folder that is held longer has another reason.
FOLDER_WAIT_S = 0.5


def tailer_path(directory: LogDirectory, name: str) -> str:
    return os.path.join(directory.path, FOLDER, name)


@contextlib.contextmanager
def opened_folder(directory: LogDirectory) -> Iterator[int]:
    """Open the folder for the length of a `with`; the first named tailer creates it."""
    fd = os.open(
        FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory.fd
    )
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _listed_folder(directory: LogDirectory) -> Iterator[int]:
    """Open the folder to list it; an IOFailureError says that the required ones are unknown."""
    try:
        with opened_folder(directory) as folder_fd:
            yield folder_fd
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IOFailureError(
            f"the log's tailers cannot be listed ({error.strerror}), so the required ones are "
            f"unknown: let this user read the folder {FOLDER!r}",
            path=os.path.join(directory.path, FOLDER),
            errno=error.errno,
        ) from error


@contextlib.contextmanager
def terms_locked(directory: LogDirectory, name: str) -> Iterator[None]:
    """Hold the lock under which terms change, and tailers are deleted or reset.

    The lock is a byte of `lock`; it ends with its process. Older releases, and users who cannot
    open `lock`, lock the folder instead, so the folder is locked as well. Any reader can lock the
    folder, so a lock there that stays is ignored.
    """
    with contextlib.ExitStack() as held:
        try:
            byte = LifeLock(
                lambda: open_lock_file(lock_file.NAME, directory.fd, create=False),
                kind=None,
                span=TERMS,
            )
        except (FileNotFoundError, PermissionError):
            pass
        else:
            held.callback(byte.close)
            changing = attempts(_TERMS_WAIT_S, f"the lock on the terms of tailer {name!r}")
            if not any(byte.acquire("exclusive") for _ in changing):
                raise IOFailureError(
                    "another process has been changing a tailer of this log for "
                    f"{_TERMS_WAIT_S:g} s: check for a stopped process",
                    path=tailer_path(directory, name),
                    errno=errno.EAGAIN,
                )
        folder_fd = held.enter_context(opened_folder(directory))
        for _ in attempts(FOLDER_WAIT_S, f"the lock on the folder of tailer {name!r}"):
            if lock_folder(folder_fd, fcntl.LOCK_EX):
                break
        try:
            yield
        finally:
            fcntl.flock(folder_fd, fcntl.LOCK_UN)


def are_terms_changing(directory: LogDirectory) -> bool:
    """Return whether a process holds the lock on terms; if not, no change of terms is pending."""
    return bool(lock_file.is_locked(directory.fd, TERMS))


def is_folder_locked(directory: LogDirectory) -> bool:
    """Return whether the folder is locked, by a process that cannot open `lock` or by a reader."""
    with contextlib.suppress(FileNotFoundError), _listed_folder(directory) as folder_fd:
        return not lock_folder(folder_fd, fcntl.LOCK_SH)
    return False


@contextlib.contextmanager
def translate_refusals(directory: LogDirectory, name: str) -> Iterator[None]:
    """Translate a damaged tailer file or an OSError into commitlog's own errors."""
    path = tailer_path(directory, name)
    with translate_errors(
        path,
        "save a tailer's position",
        permission=f"read without a name, or fix the permissions of the folder {FOLDER!r} in "
        "the log",
    ):
        try:
            yield
        except CommitLogError:
            raise
        except FileNotFoundError:
            raise TailerNotFoundError(f"there is no tailer {name!r}", path=path) from None
        except DamagedPageError as error:
            raise CorruptTailerError(
                f"the file of tailer {name!r} is damaged: {error}. Set its position with "
                f"log.reset_tailer({name!r}, ...) or `commitlog tailers LOG reset {name} POSITION`",
                path=path,
            ) from None


def names(directory: LogDirectory) -> list[str]:
    """List the names of all tailers, sorted."""
    with contextlib.suppress(FileNotFoundError), _listed_folder(directory) as folder_fd:
        return sorted(name for name in os.listdir(folder_fd) if not name.startswith("."))
    return []


def sweep(directory: LogDirectory) -> None:
    """Remove temporary files of creations that died; a creation in progress tries again."""
    with (
        contextlib.suppress(FileNotFoundError, IOFailureError),
        _listed_folder(directory) as folder_fd,
    ):
        temporary_file.sweep(folder_fd)


def make_folder(directory: LogDirectory) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(FOLDER, dir_fd=directory.fd)


def sync_names(directory: LogDirectory, folder_fd: int) -> None:
    """Make the names of all tailer files durable, including those that other processes created."""
    os.fsync(folder_fd)
    directory.sync()


@contextlib.contextmanager
def opened_file(folder_fd: int, name: str, flags: int) -> Iterator[int]:
    """Open a tailer's file of the right size for the length of a `with`."""
    with opened_regular(name, flags, dir_fd=folder_fd) as fd:
        size = os.fstat(fd).st_size
        if size != TAILER_SIZE:
            raise DamagedPageError(f"it has {size} bytes, not {TAILER_SIZE}")
        yield fd


class TailerLockedError(Exception):
    """The file is locked.

    `owned`: a tailer certainly has the lock. If not, it may be a reader's shared lock: this user
    cannot open `lock`, which distinguishes them.
    """

    def __init__(self, owned: bool) -> None:
        super().__init__(owned)
        self.owned = owned


class TailerLock:
    """A tailer's file, open and locked against other tailers until `close` or the process's death.

    Usually this is an exclusive lock on the file. If a reader has a shared lock there, the owner
    takes a shared lock, too, which excludes exclusive locks, and locks the file's byte in `lock`.
    If another process or tailer has the lock, raise `TailerLockedError`.
    """

    def __init__(self, dir_fd: int, folder_fd: int, name: str) -> None:
        self._file = LifeLock(lambda: open_regular(name, os.O_RDWR, dir_fd=folder_fd), kind=None)
        self._byte: LifeLock | None = None
        try:
            if not self._file.acquire("exclusive"):
                self._share(dir_fd)
        except BaseException:
            self.close()
            raise

    def _share(self, dir_fd: int) -> None:
        if is_held(self.descriptor, against="shared"):
            raise TailerLockedError(owned=True)
        span = tailer_span(os.fstat(self.descriptor).st_ino)
        try:
            self._byte = LifeLock(
                lambda: open_lock_file(lock_file.NAME, dir_fd, create=False), span=span
            )
        except BlockingIOError:
            raise TailerLockedError(owned=True) from None
        except OSError:
            raise TailerLockedError(owned=False) from None
        if not self._file.acquire("shared"):
            raise TailerLockedError(owned=True)

    @property
    def descriptor(self) -> int:
        return self._file.descriptor

    def close(self) -> None:
        """Release the name. Idempotent."""
        self._file.close()
        if self._byte is not None:
            self._byte.close()


def is_owned(dir_fd: int, fd: int) -> bool:
    """Return whether a tailer owns the open file.

    If this user cannot open `lock`, a reader's lock counts as a tailer's.
    """
    if is_held(fd, against="shared") or not is_held(fd):
        return is_held(fd)
    owned = lock_file.is_locked(dir_fd, tailer_span(os.fstat(fd).st_ino))
    return True if owned is None else owned
