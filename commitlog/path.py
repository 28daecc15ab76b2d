"""Paths as callers give them, and what the system refuses there."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import cast

from commitlog.errors import CommitLogError, DiskFullError, InvalidOptionError, IOFailureError, ReadOnlyError


def path_of(path: object) -> str:
    """A path as text, or a refusal of what cannot be one."""
    try:
        text = str(os.fsdecode(cast(str, path)))  # of a str, and of nothing derived from it, which the kernel would not take
        named = b"\0" not in os.fsencode(text) and bool(text)
    except TypeError:
        raise InvalidOptionError(f"path must be a str, bytes or path-like object, not {type(path).__name__}") from None
    except UnicodeEncodeError:
        named = False
    if not named:
        raise InvalidOptionError(f"path must name a directory: {text!r} does not")
    return text


@contextlib.contextmanager
def telling_of_refusals(path: str) -> Iterator[None]:
    """Whatever the system refuses while a log is opened is told as one of commitlog's own errors."""
    try:
        yield
    except CommitLogError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = f"no permission here ({why}): open with mode 'r', as another user, or fix the permissions"
            raise ReadOnlyError(message, path=path, errno=error.errno) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"no room to open the log ({why}): free space and open it again", path=path, errno=error.errno) from error
        raise IOFailureError(f"the log cannot be opened: {why}", path=path, errno=error.errno) from error
