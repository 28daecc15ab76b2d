"""An open log in the child of a fork: appends are refused until the child takes the log over."""

from __future__ import annotations

import contextlib
import os
import threading

from commitlog._kernel.engine import REFUSED_FORKED
from commitlog._kernel.memory import MODE_MAPPED
from commitlog.errors import ForkedError
from commitlog.log.parts import LogParts
from commitlog.options import ready_wait_s
from commitlog.segment.lock_file import LockFile


def forked(parts: LogParts) -> None:
    """Prepare a log for use in the child of a fork, before any other code runs there."""
    if parts.closed:
        return
    engine = parts.engine
    engine.after_fork()
    engine.watcher = None
    parts.close_lock = threading.RLock()
    parts.named_lock = threading.Lock()
    parts.producers = None  # the parent holds the locks of the names
    parts.queue.forked()
    parts.index.forked()
    parts.directory.forked()
    if parts.writer is not None:
        parts.writer.forked()
        engine.refusal = REFUSED_FORKED
    if parts.slot_lock is not None and (parts.writer is None or not engine.pooled):
        # The child needs descriptors of its own, because the parent may be the owner that dies. If
        # no descriptor is free, claims of dead owners expire by `claim_timeout`.
        with contextlib.suppress(OSError):
            parts.watch_slots()


def adopt(parts: LogParts) -> None:
    """Take a mapped log over in the child of a fork, with a lock, a slot and services of its own. A
    pooled log stays with the process that opened it: `ForkedError`.
    """
    if parts.engine.pooled or parts.pid == os.getpid():
        why = "a pooled log belongs to the process that opened it: open the log again in this one"
        raise ForkedError(why, path=parts.path)
    with parts.directory.translate_errors("take the log over in the child of a fork"):
        _adopt(parts)


def _adopt(parts: LogParts) -> None:
    lock_file = LockFile(parts.directory.fd)
    try:
        if not _rejoin(parts, lock_file):
            why = "the log was closed or is locked since the fork: open it again in this process"
            raise ForkedError(why, path=parts.path)
        parts.take_slot()
    except BaseException:
        lock_file.close()
        raise
    parts.pid = os.getpid()
    parts.lock_file = lock_file
    parts.writer = parts.new_writer_services(None)
    parts.engine.restart()
    parts.writer.start()
    parts.engine.refusal = 0
    parts.writer.backpressure.begin()


def _rejoin(parts: LogParts, lock_file: LockFile) -> bool:
    """Take the shared lock again after a fork; return whether the log may be used.

    If all other handles have closed the log since, its clean mark is removed first. The log cannot
    be used if another handle has changed it since or holds it.
    """
    cursors = parts.engine.cursors
    if not lock_file.acquire("exclusive"):
        joined = lock_file.acquire("shared", ready_wait_s(parts.options))
        return joined and cursors.mode == MODE_MAPPED
    mark = parts.recount_checkpoint()
    if cursors.mode != MODE_MAPPED or mark is None or not mark.clean:
        return False
    if mark.position != parts.engine.tail_position:
        return False
    parts.engine.write_checkpoint(mark.position, False)
    return lock_file.acquire("shared")
