"""Check paths, and translate errors of system calls on them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import cast

from commitlog.errors import (
    CommitLogError,
    DiskFullError,
    InvalidOptionError,
    IOFailureError,
    NotALogError,
    ReadOnlyError,
)
from commitlog.errors.advice import with_advice


def path_of(path: object) -> str:
    """Return a path as a plain str, and refuse other values."""
    try:
        text = str(os.fsdecode(cast(str, path)))  # the kernel takes no subclass
        named = b"\0" not in os.fsencode(text) and bool(text)
    except TypeError:
        raise InvalidOptionError(
            f"path must be a str, bytes or path-like object, not {type(path).__name__}"
        ) from None
    except UnicodeEncodeError:
        named = False
    if not named:
        raise InvalidOptionError(f"path must name a directory: {text!r} does not")
    return text


def absolute(path: str) -> str:
    """Return an absolute path; the same one if the working directory was deleted."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


def is_remote(path: str) -> bool:
    """Return whether a path is the URL of a log on another machine."""
    return path.startswith(("tls://", "tcp://"))


def make_directory(path: str) -> None:
    """Create a directory and its missing parents durably. If there is a file of such a name, raise
    `FileExistsError`.
    """
    missing = []
    where = os.path.abspath(path)
    while not os.path.isdir(where):
        missing.append(where)
        if where == os.path.dirname(where):
            os.stat(where)  # the root is there: raise why it cannot be examined
            break
        where = os.path.dirname(where)
    for each in reversed(missing):
        _make_one(each)


def _make_one(where: str) -> None:
    parent = os.path.dirname(where)
    try:
        os.mkdir(where)
    except FileExistsError:
        if not os.path.isdir(where):
            raise
    try:
        sync_directory(parent)
    except OSError:
        # Removed, because another fsync could succeed without having written this name.
        with contextlib.suppress(OSError):
            os.rmdir(where)
        raise


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_directory(path: str) -> int:
    """Open a directory that may be a log; refuse a file by `NotALogError`."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise NotALogError(
            "this path is a file, not a log: give the directory of the log", path=path
        ) from None


@contextlib.contextmanager
def opened_directory(path: str) -> Iterator[int]:
    """Open a directory that may be a log, for the length of a `with`: see `open_directory`."""
    fd = open_directory(path)
    try:
        yield fd
    finally:
        os.close(fd)


def path_behind(fd: int) -> str | None:
    """Return the path of an open file; None if it is closed, or the system does not show it."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


@contextlib.contextmanager
def translate_errors(
    path: str, doing: str, *, permission: str = "fix the permissions, then try again"
) -> Iterator[None]:
    """Translate an OSError of the block into one of commitlog's errors.

    `doing` says what the block does, to follow "no permission to", "no room to" and "cannot";
    `permission` says what to do if the permission is missing.
    """
    try:
        yield
    except CommitLogError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        kind: type[ReadOnlyError | DiskFullError | IOFailureError]
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            kind, message = ReadOnlyError, f"no permission to {doing} ({why}): {permission}"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind, message = DiskFullError, f"no room to {doing} ({why}): free space, then try again"
        else:
            kind, message = IOFailureError, f"cannot {doing}: {with_advice(why, error.errno)}"
        raise kind(message, path=path, errno=error.errno) from error


def translate_refusals(path: str) -> contextlib.AbstractContextManager[None]:
    """Translate an OSError while a log is opened."""
    return translate_errors(
        path, "open the log", permission="only read, be another user, or fix the permissions"
    )
