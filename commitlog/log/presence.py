"""Whether an open log is still the one at its path."""

from __future__ import annotations

import os

from commitlog.log.commit_log import CommitLog
from commitlog.log.parts import parts_of
from commitlog.segment import identity as identities


def is_present(log: CommitLog, path: str) -> bool:
    """Return whether a path still leads to the log that is open, and not to another one or to
    none.

    The open log keeps its directory's inode, so that a later directory has another one.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        identity = identities.read(fd, path)
        status = os.fstat(fd)
        return (
            identity is not None
            and identity.uuid == log.identity.uuid
            and (status.st_dev, status.st_ino) == parts_of(log).directory.inode
        )
    finally:
        os.close(fd)
