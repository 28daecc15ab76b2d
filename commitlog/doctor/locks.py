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
    "use a local file system and a kernel with open-file-description locks: without them, "
    "recovery cannot distinguish a live writer from a dead one"
)


def check_locks(workspace: Workspace) -> Outcome:
    """Check that a lock is held while its process lives, and is free when the process is dead, even
    if a child of it lives.
    """
    path = workspace.folder / "locked"
    with workspace.file("locked") as fd, _pipe() as (receive, send), Children() as children:
        try:
            _lock(path).close()
            owner = children.start(partial(_hold, path, send))
            heir = _received_pid(receive)
            try:
                if not is_held(fd):
                    return failed(
                        "the lock of a live process is not visible to other processes", _ADVICE
                    )
                children.kill(owner)
                if is_held(fd):
                    return failed(
                        "the lock of a dead process is still held by a child that it forked",
                        _ADVICE,
                    )
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(heir, signal.SIGKILL)
        except OSError as error:
            return failed(f"open-file-description locks fail: {error.strerror or error}", _ADVICE)
    return ok("held while the process lives, released at its death, not inherited by its children")


def _lock(path: Path) -> LifeLock:
    return LifeLock(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))


def _hold(path: Path, send: int) -> None:
    """Lock, fork a child that sends its process id and outlives this process, and wait."""
    lock = _lock(path)
    if os.fork() == 0:
        os.write(send, os.getpid().to_bytes(4, "little"))
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


def _received_pid(receive: int) -> int:
    """Return the process id that comes through a pipe."""
    if not select.select([receive], [], [], _LIMIT_S)[0]:
        raise ChildError(f"the process that locks did not answer within {_LIMIT_S:g} s")
    return int.from_bytes(os.read(receive, 4), "little")
