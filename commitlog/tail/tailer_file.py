"""The files `tailers/<name>`: where each named tailer stands, who reads under the name, and on which terms."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from commitlog._kernel.segment_file import HEADER_SIZE, rename_noreplace
from commitlog._kernel.tailer_page import SIZE, DamagedPageError, TailerPage, new_page, read_page
from commitlog.errors import (
    CommitLogError,
    CorruptTailerError,
    DiskFullError,
    InvalidOptionError,
    IOFailureError,
    ReadOnlyError,
    TailerInUseError,
    TailerNotFoundError,
)
from commitlog.life_lock import LifeLock, is_held
from commitlog.segment.directory import LogDirectory
from commitlog.shared.lock_file import POLL_INTERVAL_S, describe_process, pid_namespace

FOLDER = "tailers"
NAME_LONGEST = 128  # bytes of UTF-8
_NAME = re.compile(r"[\w@:+][\w@:+.\-]*")
_TEMPORARY = re.compile(r"^\..+\.[0-9a-f]{16}\.tmp$")
_TERMS_WAIT_S = 5.0
_ATTEMPTS = 100  # at a name that others create and delete meanwhile
_LOOKS = 3  # at a page that is being written
_logger = logging.getLogger("commitlog")


@dataclass(frozen=True)
class TailerState:
    """What is known of a named tailer at a moment.

    Attributes
    ----------
    name : str
    position : int or None
        Where it goes on: the next record's position. None where its file is damaged.
    lag_bytes : int or None
        From there to the end of the log.
    required : bool
        Retention deletes nothing that it has not read; appends wait for it where `max_lag_bytes` says so.
    max_lag_bytes : int or None
        How far appends may be ahead of it while it is required; None: any distance.
    created_ns, saved_ns : int
        When it was made, and when it last moved; nanoseconds since 1970. While it reads on without a pause, the second may be that of one
        of its last 16 moves.
    owner : str or None
        Who reads under the name now: process id and name. None: nobody.
    pid : int or None
        That process, as it calls itself.
    dropped_records : int
        Records that writers dropped because this tailer was too far behind.
    evicted_ns : int or None
        When it was evicted: it is not required any more since.
    damage : str or None
        What is wrong with its file.
    """

    name: str
    position: int | None = None
    lag_bytes: int | None = None
    required: bool = False
    max_lag_bytes: int | None = None
    created_ns: int = 0
    saved_ns: int = 0
    owner: str | None = None
    pid: int | None = None
    dropped_records: int = 0
    evicted_ns: int | None = None
    damage: str | None = None


def passed(step: str) -> None:
    """Told of each step by which a file comes into being or is made anew. Tests replace it to stop or die there."""


def check_name(name: object) -> str:
    """A name that a tailer can have.

    Raises
    ------
    InvalidOptionError
        It cannot; the message says what it may be.
    """
    if not isinstance(name, str):
        raise InvalidOptionError(f"name must be a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name) or not name.isprintable() or len(name.encode(errors="replace")) > NAME_LONGEST:
        raise InvalidOptionError(
            f"name must be 1 to {NAME_LONGEST} bytes of letters, digits and _ @ : + . -, and not begin with . or -: {name!r} is not"
        )
    return name


# --- the folder ----------------------------------------------------------------------------------------------------------


def tailer_path(directory: LogDirectory, name: str) -> str:
    return os.path.join(directory.path, FOLDER, name)


@contextlib.contextmanager
def _folder(directory: LogDirectory) -> Iterator[int]:
    """A descriptor of the folder.

    Raises
    ------
    FileNotFoundError
        No tailer of this log ever had a name.
    """
    fd = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory.fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _terms_locked(folder_fd: int, path: str) -> Iterator[None]:
    """Only one process at a time changes terms. The descriptor is the caller's own, and the lock goes with it at the latest."""
    deadline = time.monotonic() + _TERMS_WAIT_S
    while True:
        try:
            fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise IOFailureError(
                    f"another process has been changing a tailer of this log for {_TERMS_WAIT_S:g} s: look for a stopped one",
                    path=path,
                    errno=errno.EAGAIN,
                ) from None
            time.sleep(POLL_INTERVAL_S)
    try:
        yield
    finally:
        fcntl.flock(folder_fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def _telling_of_refusals(directory: LogDirectory, name: str) -> Iterator[None]:
    """Whatever is wrong with a tailer's file, or the system refuses, is told as one of commitlog's own errors."""
    path = tailer_path(directory, name)
    try:
        yield
    except CommitLogError:
        raise
    except FileNotFoundError:
        raise TailerNotFoundError(f"there is no tailer {name!r}", path=path) from None
    except DamagedPageError as error:
        raise CorruptTailerError(
            f"the file of tailer {name!r} cannot be used: {error}. Say from where to go on: log.reset_tailer({name!r}, ...), or "
            f"`commitlog tailers LOG reset {name} POSITION`",
            path=path,
        ) from None
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ReadOnlyError(
                f"no permission to keep a tailer's position ({why}): read without a name, or fix the permissions of the folder "
                f"{FOLDER!r} in the log",
                path=path,
                errno=error.errno,
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"no room for a tailer's position ({why}): free space and try again"
            raise DiskFullError(message, path=path, errno=error.errno) from error
        raise IOFailureError(f"a tailer's position cannot be kept: {why}", path=path, errno=error.errno) from error


def names(directory: LogDirectory) -> list[str]:
    """The names of all tailers, sorted."""
    try:
        with _folder(directory) as folder_fd:
            return sorted(name for name in os.listdir(folder_fd) if not name.startswith("."))
    except FileNotFoundError:
        return []


def sweep(directory: LogDirectory) -> None:
    """Remove what creations that died half-way have left. Who is creating one at present tries again."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _folder(directory) as folder_fd:
        for name in os.listdir(folder_fd):
            if _TEMPORARY.match(name):
                os.unlink(name, dir_fd=folder_fd)


# --- reading -------------------------------------------------------------------------------------------------------------


def _open_page(folder_fd: int, name: str, flags: int) -> int:
    """A descriptor of a tailer's file, which is one of the right size."""
    fd = os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_fd)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedPageError("it is not a file")
        if status.st_size != SIZE:
            raise DamagedPageError(f"it has {status.st_size} bytes and not {SIZE}")
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_state(directory: LogDirectory, name: str, end: int | None = None) -> TailerState:
    """What a tailer's file says; damage is a part of it.

    Parameters
    ----------
    directory : LogDirectory
        The log's.
    name : str
        The tailer's.
    end : int, optional
        Where the log ends, for the lag.

    Raises
    ------
    TailerNotFoundError
        There is no such tailer.
    """
    try:
        with _telling_of_refusals(directory, name), _folder(directory) as folder_fd:
            fd = _open_page(folder_fd, name, os.O_RDONLY)
            try:
                return _read(fd, name, directory.log_uuid, end)
            finally:
                os.close(fd)
    except (CorruptTailerError, ReadOnlyError, IOFailureError) as error:
        cause = error.__context__
        return TailerState(name, damage=str(cause if cause is not None else error))


def _read(fd: int, name: str, log_uuid: bytes, end: int | None) -> TailerState:
    for look in range(_LOOKS):
        try:
            found = read_page(os.pread(fd, SIZE, 0), log_uuid)
            break
        except DamagedPageError:
            if look == _LOOKS - 1:
                raise
    position = found["position"]
    owned = is_held(fd)
    return TailerState(
        name,
        position=position,
        lag_bytes=None if end is None else max(0, end - position),
        required=found["required"],
        max_lag_bytes=found["max_lag_bytes"] or None,
        created_ns=found["created_ns"],
        saved_ns=found["saved_ns"],
        owner=describe_process(found["pid"], found["pid_namespace"]) if owned else None,
        pid=found["pid"] if owned else None,
        dropped_records=found["dropped"],
        evicted_ns=found["evicted_ns"] or None,
    )


def states(directory: LogDirectory, end: int | None = None) -> list[TailerState]:
    """All named tailers, by name."""
    found = []
    for name in names(directory):
        with contextlib.suppress(TailerNotFoundError):  # deleted meanwhile
            found.append(read_state(directory, name, end))
    return found


def lowest_required(directory: LogDirectory) -> int | None:
    """The position of the slowest required tailer: what stands from there on must be kept.

    Returns
    -------
    int or None
        None where no tailer is required. 0, and a warning is logged, where a file is damaged: it may have been a required tailer's.
    """
    lowest = None
    for state in states(directory):
        if state.damage is not None:
            _logger.warning(
                "nothing of %s is deleted, for the file of tailer %r is damaged (%s): reset the tailer, or delete it",
                directory.path,
                state.name,
                state.damage,
            )
            return 0
        if state.required and state.position is not None:
            lowest = state.position if lowest is None else min(lowest, state.position)
    return lowest


# --- owning --------------------------------------------------------------------------------------------------------------


class TailerFile:
    """The file of a tailer that reads under its name, held against all others until `close` or the process's death.

    Parameters
    ----------
    directory : LogDirectory
        The log's.
    name : str
        Checked.
    start : int
        Where a new tailer stands.

    Attributes
    ----------
    page : TailerPage
        Where its position is kept.
    created : bool
        There was no tailer of that name before.

    Raises
    ------
    TailerInUseError
        Another tailer, of this process or another, reads under that name.
    CorruptTailerError
        The file is there and of no use.
    ReadOnlyError, DiskFullError, IOFailureError
        The file cannot be made or opened.
    """

    def __init__(self, directory: LogDirectory, name: str, start: int) -> None:
        self.name = name
        self.path = tailer_path(directory, name)
        self.created = False
        self._directory = directory
        with _telling_of_refusals(directory, name):
            _make_folder(directory)
            with _folder(directory) as folder_fd:
                self._lock, self.page = self._take(folder_fd, start)
                try:
                    self.change_terms(owner=(os.getpid(), pid_namespace(), time.time_ns()))
                except BaseException:
                    self._lock.close()
                    raise

    def _take(self, folder_fd: int, start: int) -> tuple[LifeLock, TailerPage]:
        for _ in range(_ATTEMPTS):
            try:
                lock = _lock(self._directory, folder_fd, self.name)
            except FileNotFoundError:
                with contextlib.suppress(FileNotFoundError):  # swept away: again
                    self.created |= _create(folder_fd, self.name, new_page(self._directory.log_uuid, start, time.time_ns()))
                continue
            try:
                page = _map_locked(self._directory, folder_fd, self.name, lock)
            except FileNotFoundError:
                lock.close()  # deleted between the two
                continue
            except BaseException:
                lock.close()
                raise
            return lock, page
        raise IOFailureError("others create and delete this tailer all the time: try again", path=self.path, errno=errno.EAGAIN)

    def change_terms(
        self,
        *,
        required: bool | None = None,
        max_lag_bytes: int | None = None,
        evicted_ns: int | None = None,
        owner: tuple[int, int, int] | None = None,
    ) -> None:
        """Write new terms; what is None stays."""
        with _folder(self._directory) as folder_fd, _terms_locked(folder_fd, self.path):
            self.page.change_terms(
                self._directory.log_uuid, required=required, max_lag_bytes=max_lag_bytes, evicted_ns=evicted_ns, owner=owner
            )

    def __del__(self) -> None:
        # Dropped without being closed: the lock would outlive it, in the list of those that a child of a fork closes.
        with contextlib.suppress(AttributeError, IOFailureError):
            self.close()

    def close(self) -> None:
        """Let others read under the name. Idempotent."""
        try:
            self.page.close()
        finally:
            self._lock.close()


def _make_folder(directory: LogDirectory) -> None:
    try:
        os.mkdir(FOLDER, dir_fd=directory.fd)
    except FileExistsError:
        return
    directory.sync()


def _create(folder_fd: int, name: str, content: bytes) -> bool:
    """Put a whole file in place; False when another one got there first."""
    temporary = f".{name}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder_fd)
    try:
        try:
            # Room first: a store into a hole of the mapping would be SIGBUS on a full disk.
            passed("created")
            os.posix_fallocate(fd, 0, SIZE)
            passed("allocated")
            os.pwrite(fd, content, 0)
            passed("written")
            os.fsync(fd)
            passed("synced")
        finally:
            os.close(fd)
        placed = rename_noreplace(folder_fd, temporary, name)
        passed("renamed")
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder_fd)
        raise
    if not placed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder_fd)
    os.fsync(folder_fd)
    return bool(placed)


def _lock(directory: LogDirectory, folder_fd: int, name: str) -> LifeLock:
    """The lock on a tailer's file, by a description of its own: what is mapped would keep the lock alive in forked children."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    lock = LifeLock(lambda: os.open(name, flags, dir_fd=folder_fd), kind=None)
    try:
        if not lock.acquire("exclusive"):
            holder = read_state(directory, name).owner or "another process"
            raise TailerInUseError(
                f"tailer {name!r} is read by {holder} already: close it there, or take another name",
                path=tailer_path(directory, name),
                holder=holder,
            )
    except BaseException:
        lock.close()
        raise
    return lock


def _map_locked(directory: LogDirectory, folder_fd: int, name: str, lock: LifeLock) -> TailerPage:
    """The page of the file that is locked; FileNotFoundError when that is not the one of this name any more."""
    fd = _open_page(folder_fd, name, os.O_RDWR)
    try:
        if os.fstat(fd).st_ino != os.fstat(lock.descriptor).st_ino:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        page = TailerPage(fd, True)
    finally:
        os.close(fd)
    read_page(page.mapping, directory.log_uuid)
    return page


# --- others' tailers -----------------------------------------------------------------------------------------------------


def reset(directory: LogDirectory, name: str, position: int) -> None:
    """Have a tailer that nobody reads with go on somewhere else; a damaged file is made anew, and required no more.

    Raises
    ------
    TailerNotFoundError, TailerInUseError
        There is no such tailer, or somebody reads with it.
    """
    with _held(directory, name) as (folder_fd, lock):
        try:
            page = _map_locked(directory, folder_fd, name, lock)
        except DamagedPageError:
            # Away with it first, which is all that can be done at once: the one lock that there is, is on this very file.
            os.unlink(name, dir_fd=folder_fd)
            passed("damage removed")
            _create(folder_fd, name, new_page(directory.log_uuid, position, time.time_ns()))
            return
        page.save(position)
        page.sync()


def delete(directory: LogDirectory, name: str) -> None:
    """Forget a tailer that nobody reads with.

    Raises
    ------
    TailerNotFoundError, TailerInUseError
        There is no such tailer, or somebody reads with it.
    """
    with _held(directory, name) as (folder_fd, _):
        os.unlink(name, dir_fd=folder_fd)
        os.fsync(folder_fd)


@contextlib.contextmanager
def _held(directory: LogDirectory, name: str) -> Iterator[tuple[int, LifeLock]]:
    with _telling_of_refusals(directory, name), _folder(directory) as folder_fd:
        lock = _lock(directory, folder_fd, name)
        try:
            if os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_ino != os.fstat(lock.descriptor).st_ino:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            yield folder_fd, lock
        finally:
            lock.close()


def open_page(directory: LogDirectory, name: str) -> TailerPage:
    """Map the file of a tailer that somebody else may own, to see where it stands and to change its terms.

    Raises
    ------
    TailerNotFoundError, CorruptTailerError, ReadOnlyError, IOFailureError
        It cannot be mapped for writing.
    """
    with _telling_of_refusals(directory, name), _folder(directory) as folder_fd:
        fd = _open_page(folder_fd, name, os.O_RDWR)
        try:
            return TailerPage(fd, True)
        finally:
            os.close(fd)


def evict(directory: LogDirectory, name: str) -> bool:
    """Require a tailer no more, whoever reads with it; its position stays. False where it was not required.

    Raises
    ------
    TailerNotFoundError, CorruptTailerError
        There is no such tailer, or its file is of no use.
    """
    page = open_page(directory, name)
    path = tailer_path(directory, name)
    with _telling_of_refusals(directory, name), _folder(directory) as folder_fd, _terms_locked(folder_fd, path):
        required = read_page(page.mapping, directory.log_uuid)["required"]
        if required:
            page.change_terms(directory.log_uuid, required=False, evicted_ns=time.time_ns())
        return required


def cut_back(directory: LogDirectory, end: int) -> None:
    """Have tailers that stand behind the end of a log go on at it: what they had read there was cut off, and other records will take its
    place. Only under the log's exclusive lock."""
    offset = end % directory.segment_size
    end += max(0, HEADER_SIZE - offset)  # where the next record goes
    for state in states(directory):
        if state.position is None or state.position <= end:
            continue
        try:
            reset(directory, state.name, end)
        except CommitLogError as error:
            _logger.error(
                "tailer %r of %s stands at %d, behind the log's end at %d: %s", state.name, directory.path, state.position, end, error
            )
        else:
            _logger.warning(
                "tailer %r of %s stood at %d: it goes on at %d, where the log ends", state.name, directory.path, state.position, end
            )
