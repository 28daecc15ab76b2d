"""A change of the file `epoch` while other processes may change it, too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from commitlog.base.life_lock import LifeLock, open_lock_file
from commitlog.base.polling import attempts
from commitlog.errors import ReplicationError
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Lineage
from commitlog.segment import lock_file
from commitlog.segment.directory import LogDirectory

_CHANGE_S = 10.0  # to wait for another process that writes the file


def change(directory: LogDirectory, of: Callable[[Lineage], Lineage]) -> Lineage:
    """Replace the file by what `of` makes of it, while no other process does the same; return what
    it has then.
    """
    with directory.translate_errors(f"lock `{lineage.NAME}`"):
        # A byte of `lock`: a user who may only read could lock the directory without end.
        lock = LifeLock(
            lambda: open_lock_file(lock_file.NAME, directory.fd), kind=None, span=lock_file.EPOCH
        )
    with contextlib.closing(lock):
        changing = attempts(
            _CHANGE_S, f"the process that writes `{lineage.NAME}` of {directory.path}"
        )
        if any(lock.acquire("exclusive") for _ in changing):
            known = lineage.read(directory)
            new = of(known)
            return known if new == known else lineage.write(directory, new)
    raise ReplicationError(
        f"another process has locked `{lineage.NAME}` for {_CHANGE_S:g} s: end it, or try again",
        path=directory.path,
    )
