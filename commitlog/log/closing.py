"""Close a log: drain it, seal it, mark it clean and release it."""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import warnings

from commitlog._kernel.engine import REFUSED_CLOSED, LogMethods
from commitlog.base.later_log import LaterLog
from commitlog.base.section import Entry
from commitlog.base.service import start_lock
from commitlog.errors import CloseTimeoutError, CommitLogError, IOFailureError, SyncTimeoutError
from commitlog.log.parts import LogParts
from commitlog.log.registry import registry
from commitlog.log.writer_services import WriterServices

_logger = logging.getLogger("commitlog")
_THREADS_S = 30.0


def close(parts: LogParts) -> None:
    """Close a log: see `CommitLog.close`."""
    failure: CommitLogError | None = None
    remarks = LaterLog(_logger)
    # How long another thread's close may take: its flush, and the ends of its threads.
    wait_s = parts.options.close_timeout + _THREADS_S
    try:
        with parts.closing.entered(wait_s) as entry:
            if entry is Entry.LATE and not parts.closed:
                raise CloseTimeoutError(
                    "another thread is still closing the log: call close() again", path=parts.path
                )
            if entry is not Entry.ENTERED or parts.closed:
                return  # NESTED: the close that this call interrupts goes on
            # First, a thread that takes the log over after a fork, or finds its cursors, is done.
            with parts.adopting.entered(wait_s), parts.finding.entered(wait_s):
                if parts.pid != os.getpid() or parts.writer is None:
                    _release(parts)
                    return
                failure = _end_writing(parts, parts.writer, remarks)
    finally:
        remarks.report()
        if parts.writer is not None:
            parts.writer.report()
    if failure is not None:
        raise failure
    _logger.info("%s: closed", parts.path)


def _end_writing(
    parts: LogParts, writer: WriterServices, remarks: LaterLog
) -> CommitLogError | None:
    with start_lock:  # from here on no coroutine starts the acknowledge service
        parts.engine.refusal = REFUSED_CLOSED
    failure = _drain(parts)
    try:
        try:
            if failure is None:
                _seal(parts, writer, remarks)
                with contextlib.suppress(CommitLogError):  # an index can be rebuilt
                    parts.index.file_unsealed()
                _keep_producers(parts, remarks)
        finally:  # also after Ctrl-C: release the log and everything that its threads use
            writer.stop()
        if failure is None:
            _mark_clean(parts)
    except CommitLogError as error:
        failure = failure or error
    finally:
        parts.engine.detach_slot()
        parts.producers.release()
        writer.end()
        _release(parts)
    return failure


def _keep_producers(parts: LogParts, remarks: LaterLog) -> None:
    try:
        parts.producers.keep()
    except CommitLogError as error:  # the next user of a name reads the marks
        remarks.note(logging.WARNING, "%s: `producers` was not extended: %s", parts.path, error)


def _drain(parts: LogParts) -> CommitLogError | None:
    """Commit and flush what is left; return the error for which the log gets no clean mark. If
    `close_timeout` expires, raise `CloseTimeoutError`: the log stays open.
    """
    try:
        parts.engine.flush_to(parts.engine.tail_position, parts.options.close_timeout)
        parts.engine.check_failed()
    except SyncTimeoutError as error:
        raise CloseTimeoutError(
            f"not all records became durable within {parts.options.close_timeout:g} s: the log is "
            "still open, call close() again",
            path=parts.path,
            position=error.position,
        ) from error
    except CommitLogError as error:
        return error
    return None


def _seal(parts: LogParts, writer: WriterServices, remarks: LaterLog) -> None:
    """Seal each segment that was rolled past, so that it can be pruned, archived or searched."""
    try:
        with parts.directory.translate_errors("seal the log's segments"):
            writer.allocation.sealed_below()
    except CommitLogError as error:
        remarks.note(
            logging.WARNING,
            "%s: not every segment could be sealed; the next writable open seals the rest: %s",
            parts.path,
            error,
        )


def _mark_clean(parts: LogParts) -> None:
    """Write the clean mark, if this is the last handle: then no other one shares the lock."""
    assert parts.lock_file is not None
    engine = parts.engine
    with parts.directory.translate_errors("mark the log as closed cleanly"):
        if parts.lock_file.acquire("exclusive"):
            # Since this handle's own flush others may have appended and died, or the log failed.
            engine.flush_to(engine.tail_position, parts.options.close_timeout)
            engine.check_failed()
            parts.recount_checkpoint()
            engine.write_checkpoint(engine.tail_position, True)


def _release(parts: LogParts) -> None:
    parts.closed = True
    with start_lock:  # from here on no watcher is started
        parts.engine.refusal = REFUSED_CLOSED
    if parts.engine.watcher is not None:
        parts.engine.watcher.stop()
    for file in parts.known():
        # After a failure, the next tailer of the name rereads some records.
        with contextlib.suppress(IOFailureError):
            file.close()
    parts.guests.close()
    if parts.pid == os.getpid():
        parts.unmap()
    registry.discard(parts)
    parts.engine.leave_kernel()


# --- a log that was dropped ------------------------------------------------------------------


def close_dropped(parts: LogParts, log: LogMethods) -> None:
    """Close a log whose `CommitLog` was collected without `close`, with a `ResourceWarning`.

    The collector may run in a thread that holds any lock, so a separate thread closes the log. It
    is not a `threading.Thread`, whose start takes locks.
    """
    try:
        if parts.pid == os.getpid():  # in the child of a fork, the parent closes the log
            why = f"the log {parts.path} was dropped without close(); it is closed now"
            warnings.warn(why, ResourceWarning, stacklevel=2, source=log)
    finally:
        # If the system has no thread left, the log is closed at exit.
        with contextlib.suppress(RuntimeError):
            _thread.start_new_thread(_close_quietly, (parts,))


def _close_quietly(parts: LogParts) -> None:
    try:
        close(parts)
    except CommitLogError as error:
        _logger.error("%s: closing the dropped log failed: %s", parts.path, error)
