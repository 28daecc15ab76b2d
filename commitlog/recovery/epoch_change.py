"""A change of the file `epoch` while other processes may change it, too."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

from commitlog.base.polling import attempts
from commitlog.errors import ReplicationError
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Lineage
from commitlog.segment.directory import LogDirectory

_CHANGE_S = 10.0  # to wait for another process that writes the file


def change(directory: LogDirectory, of: Callable[[Lineage], Lineage]) -> Lineage:
    """Replace the file by what `of` makes of it, while no other process does the same; return what
    it has then.
    """
    with directory.translate_errors(f"lock `{lineage.NAME}`"):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory.fd)
    try:
        for _ in attempts(
            _CHANGE_S, f"the process that writes `{lineage.NAME}` of {directory.path}"
        ):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            try:
                known = lineage.read(directory)
                new = of(known)
                return known if new == known else lineage.write(directory, new)
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)  # also for the child of a fork
    finally:
        os.close(fd)
    raise ReplicationError(
        f"another process has locked `{lineage.NAME}` for {_CHANGE_S:g} s: end it, or try again",
        path=directory.path,
    )
