"""An open log in the child of a fork: appends are refused until the child takes the log over."""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack

from commitlog._kernel.engine import REFUSED_CLOSED, REFUSED_FORKED
from commitlog._kernel.memory import MODE_MAPPED
from commitlog.base.section import Entry
from commitlog.errors import ForkedError, OpenTimeoutError
from commitlog.log.parts import LogParts
from commitlog.log.writer_services import WriterServices
from commitlog.options import ready_wait_s
from commitlog.segment.lock_file import LockFile


def forked(parts: LogParts) -> None:
    """Prepare a log for use in the child of a fork, before any other code runs there."""
    if parts.closed:
        return
    engine = parts.engine
    engine.after_fork()
    engine.watcher = None
    parts.closing.forked()
    parts.adopting.forked()
    parts.finding.forked()
    parts.producers = parts.new_producers()  # the parent holds the locks of the names
    parts.queue.forked()
    parts.index.forked()
    parts.directory.forked()
    if parts.writer is not None:
        parts.writer.forked()
        engine.refusal = REFUSED_FORKED
    if parts.slot_lock is not None and (parts.writer is None or not engine.pooled):
        _watch(parts)


def _watch(parts: LogParts) -> None:
    # The child needs descriptors of its own, because the parent may be the owner that dies. If no
    # descriptor is free, claims of dead owners expire by `claim_timeout`.
    with contextlib.suppress(OSError):
        parts.watch_slots()


def adopt(parts: LogParts) -> bool:
    """Take a mapped log over in the child of a fork, with a lock, a slot and services of its own.

    One thread does so, and the others wait for it; return whether it was this one. A pooled log
    stays with the process that opened it: `ForkedError`.
    """
    if parts.engine.pooled:
        why = "a pooled log belongs to the process that opened it: open the log again in this one"
        raise ForkedError(why, path=parts.path)
    with parts.adopting.entered(ready_wait_s(parts.options)) as entry:
        if entry is Entry.NESTED:
            raise ForkedError(
                "this thread is taking the log over after a fork, and a signal handler or a "
                "finaliser interrupted it: append again later",
                path=parts.path,
            )
        if entry is Entry.LATE:
            why = "another thread is still taking the log over after a fork: append again"
            raise OpenTimeoutError(why, path=parts.path)
        if parts.engine.refusal != REFUSED_FORKED:
            return False  # another thread has done so
        parts.check_open()
        with parts.directory.translate_errors("take the log over in the child of a fork"):
            _adopt(parts)
    return True


def _adopt(parts: LogParts) -> None:
    """If this raises, everything is as before: the next append tries again."""
    with ExitStack() as undo:
        lock_file = LockFile(parts.directory.fd)
        undo.callback(lock_file.close)
        if not _rejoin(parts, lock_file):
            why = "the log was closed or is locked since the fork: open it again in this process"
            raise ForkedError(why, path=parts.path)
        undo.callback(_watch, parts)
        undo.callback(parts.leave_slot)
        parts.take_slot()
        writer = parts.new_writer_services(None)
        undo.callback(_end, writer)
        parts.engine.restart()
        writer.start()
        undo.callback(_hand_over, parts, parts.lock_file, parts.writer, parts.pid)
        parts.engine.refusal = 0
        _hand_over(parts, lock_file, writer, os.getpid())
        if parts.closed:  # by a signal handler, which left what is made here
            parts.engine.refusal = REFUSED_CLOSED
            parts.check_open()
        undo.pop_all()


def _hand_over(
    parts: LogParts, lock_file: LockFile | None, writer: WriterServices | None, pid: int
) -> None:
    parts.lock_file = lock_file
    parts.writer = writer
    parts.pid = pid  # last: a close of this process's log finds the others


def _end(writer: WriterServices) -> None:
    writer.stop()
    if writer.listener is not None:
        writer.listener.finish()


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
