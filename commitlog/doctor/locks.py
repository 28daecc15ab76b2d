"""Check that locks distinguish a live process from a dead one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from commitlog.base.life_lock import LifeLock, is_held
from commitlog.doctor.children import ChildError, Children
from commitlog.doctor.finding import Outcome, failed, ok
from commitlog.doctor.workspace import Workspace

_LIMIT_S = 5.0
_ADVICE = (
    "use a local file system and a kernel with open-file-description locks: the dead could "
    "not be told from the living"
)


def check_locks(workspace: Workspace) -> Outcome:
    """A lock is held while its process lives, and free when it dies, though a child of it lives."""
    path = workspace.folder / "locked"
    with workspace.file("locked") as fd, _pipe() as (hear, say), Children() as children:
        try:
            _lock(path).close()
            owner = children.start(partial(_hold, path, say))
            heir = _heard(hear)
            try:
                if not is_held(fd):
                    return failed("a lock that a living process holds is not seen", _ADVICE)
                children.kill(owner)
                if is_held(fd):
                    why = (
                        "the lock of a dead process is still held: a child that it forked keeps it"
                    )
                    return failed(why, _ADVICE)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(heir, signal.SIGKILL)
        except OSError as error:
            return failed(f"open-file-description locks: {error.strerror or error}", _ADVICE)
    return ok("held by the living, gone with the dead, not inherited by their children")


def _lock(path: Path) -> LifeLock:
    return LifeLock(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))


def _hold(path: Path, say: int) -> None:
    """Lock, fork a child that lives longer and says who it is, and wait for the end."""
    lock = _lock(path)
    if os.fork() == 0:
        os.write(say, os.getpid().to_bytes(4, "little"))
        time.sleep(_LIMIT_S)
        os._exit(0)
    time.sleep(_LIMIT_S)
    lock.close()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _heard(hear: int) -> int:
    """The process number that comes through a pipe."""
    if not select.select([hear], [], [], _LIMIT_S)[0]:
        raise ChildError(f"the process that locks said nothing for {_LIMIT_S:g} s")
    return int.from_bytes(os.read(hear, 4), "little")
