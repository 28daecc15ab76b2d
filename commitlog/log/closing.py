"""Close a log: drain it, seal it, mark it clean and release it."""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import warnings

from commitlog._kernel.engine import REFUSED_CLOSED, LogMethods
from commitlog.base.service import start_lock
from commitlog.errors import CloseTimeoutError, CommitLogError, IOFailureError, SyncTimeoutError
from commitlog.log.parts import LogParts
from commitlog.log.registry import registry
from commitlog.log.writer_services import WriterServices

_logger = logging.getLogger("commitlog")


def close(parts: LogParts) -> None:
    """Close a log: see `CommitLog.close`."""
    with parts.close_lock:
        if parts.closed:
            return
        if parts.pid != os.getpid() or parts.writer is None:
            _release(parts)
            return
        failure = _end_writing(parts, parts.writer)
    if failure is not None:
        raise failure
    _logger.info("%s: closed", parts.path)


def _end_writing(parts: LogParts, writer: WriterServices) -> CommitLogError | None:
    with start_lock:  # from here on no coroutine starts the acknowledge service
        parts.engine.refusal = REFUSED_CLOSED
    failure = _drain(parts)
    try:
        try:
            if failure is None:
                _seal(parts, writer)
                with contextlib.suppress(CommitLogError):  # an index can be rebuilt
                    parts.index.file_unsealed()
                if parts.producers is not None:
                    parts.producers.keep()
        finally:  # also after Ctrl-C: release the log and everything that its threads use
            writer.stop()
        if failure is None:
            _mark_clean(parts)
    except CommitLogError as error:
        failure = failure or error
    finally:
        parts.engine.detach_slot()
        if parts.producers is not None:
            parts.producers.release()
        writer.end()
        _release(parts)
    return failure


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


def _seal(parts: LogParts, writer: WriterServices) -> None:
    """Seal each segment that was rolled past, so that it can be pruned, archived or searched."""
    try:
        with parts.directory.translate_errors("seal the log's segments"):
            writer.allocation.sealed_below()
    except CommitLogError as error:
        _logger.warning(
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
    with parts.named_lock:
        named = list(parts.named)
    for file in named:
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
        _thread.start_new_thread(_close_quietly, (parts,))


def _close_quietly(parts: LogParts) -> None:
    try:
        close(parts)
    except CommitLogError as error:
        _logger.error("%s: closing the dropped log failed: %s", parts.path, error)
