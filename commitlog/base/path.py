"""Paths as callers give them, and what the system refuses there."""

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
    ReadOnlyError,
)


def path_of(path: object) -> str:
    """A path as text, or a refusal of what cannot be one."""
    try:
        text = str(
            os.fsdecode(cast(str, path))
        )  # of a str, and of nothing derived from it, which the kernel would not take
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


def make_directory(path: str) -> None:
    """Create a directory and its missing parents, and make the names of all that were missing
    durable.

    Raises
    ------
    FileExistsError
        There is a file of that name, or of a parent's.
    """
    where = os.path.abspath(path)
    parent = os.path.dirname(where)
    if os.path.isdir(where):
        return
    make_directory(parent)
    try:
        os.mkdir(where)
    except FileExistsError:
        if not os.path.isdir(where):
            raise
    try:
        sync_directory(parent)
    except OSError:
        # The next try makes it anew: another fsync could succeed without having written this name.
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


@contextlib.contextmanager
def telling(
    path: str, doing: str, *, permission: str = "fix the permissions, then try again"
) -> Iterator[None]:
    """Raise an OSError of the block as one of commitlog's own errors.

    Parameters
    ----------
    path : str
        What the block is about.
    doing : str
        What the block does, to follow "no permission to", "no room to" and "cannot".
    permission : str
        What to do about a lack of permission.
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
            kind, message = IOFailureError, f"cannot {doing}: {why}"
        raise kind(message, path=path, errno=error.errno) from error


def telling_of_refusals(path: str) -> contextlib.AbstractContextManager[None]:
    """Do the same while a log is opened."""
    return telling(
        path, "open the log", permission="only read, be another user, or fix the permissions"
    )
