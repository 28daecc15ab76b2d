"""Check what processes share: locks, and a small log."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection

import commitlog
from commitlog.base.life_lock import LifeLock, is_held
from commitlog.errors import CommitLogError
from commitlog.keep import verify
from commitlog.tools.doctor.finding import Finding, Workspace, failed, ok

_WRITERS = 3
_RECORDS = 1500
_LONGEST = 400
_SEGMENT = 64 << 10
_LIMIT_S = 30.0
_LOCK_LIMIT_S = 5.0
_LOCK_ADVICE = (
    "use a local file system, on Linux with open-file-description locks: without them, "
    "recovery cannot distinguish a live writer from a dead one"
)
_ROUND_ADVICE = "do not keep a log here, and report this finding with the lines above it"
_fork = multiprocessing.get_context("fork")


def check_locks(workspace: Workspace) -> Finding:
    """Check that a lock is held while its process lives, and is free when the process is dead."""
    path = str(workspace.folder / "locked")
    receive, send = _fork.Pipe(duplex=False)
    with workspace.file("locked") as fd, receive, send:
        owner = _fork.Process(target=_hold, args=(path, send), daemon=True)
        owner.start()
        try:
            fault = receive.recv() if receive.poll(_LOCK_LIMIT_S) else "no answer"
            if fault is not None:
                return failed(f"open-file-description locks fail: {fault}", _LOCK_ADVICE)
            if not is_held(fd):
                return failed(
                    "the lock of a live process is not visible to other processes", _LOCK_ADVICE
                )
        finally:
            owner.kill()
            owner.join()
        if is_held(fd):
            return failed("the lock of a dead process is still held", _LOCK_ADVICE)
    return ok("held while the process lives, released at its death")


def _hold(path: str, send: Connection) -> None:
    """Lock a file, report None or what failed, and wait to be killed."""
    _default_signals()
    try:
        lock = LifeLock(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        send.send(error.strerror)
        return
    send.send(None)
    time.sleep(_LIMIT_S)
    lock.close()


def check_round(workspace: Workspace) -> Finding:
    """Check every byte of a small log that several processes write while another one reads it."""
    path = str(workspace.folder / "log")
    began = time.perf_counter()
    try:
        commitlog.open(path, mode="x", segment_size=_SEGMENT).close()
        with _fork.Pool(_WRITERS + 1, _default_signals) as pool:
            reading = pool.apply_async(_read, (path,))
            pool.starmap_async(_write, [(path, writer) for writer in range(_WRITERS)]).get(_LIMIT_S)
            size = reading.get(_LIMIT_S)
        report = verify(path)
    except multiprocessing.TimeoutError:
        return failed(f"a process did not end within {_LIMIT_S:g} s", _ROUND_ADVICE)
    except (CommitLogError, OSError) as error:
        return failed(str(error), _ROUND_ADVICE)
    if not report.sound or report.records != _WRITERS * _RECORDS:
        return failed(
            f"only {report.records} of {_WRITERS * _RECORDS} records are valid afterwards",
            _ROUND_ADVICE,
        )
    took_s = time.perf_counter() - began
    return ok(
        f"{_WRITERS} writers and a reader: {report.records} records, {size} bytes, all read as "
        f"they were written, {took_s:.1f} s"
    )


def _default_signals() -> None:
    """Let the parent decide about Ctrl-C, and end silently when it terminates its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def content(writer: int, number: int) -> bytes:
    """Return the value that a writer appends as its record `number`: writer, number, and bytes that
    both determine.
    """
    numbers = random.Random(writer << 32 | number)
    return (
        writer.to_bytes(4, "little")
        + number.to_bytes(4, "little")
        + numbers.randbytes(numbers.randrange(_LONGEST))
    )


def _write(path: str, writer: int) -> None:
    with commitlog.open(path) as log:
        for number in range(_RECORDS):
            log.append(content(writer, number))


def _read(path: str) -> int:
    """Read the records of all writers as they arrive; return the number of their bytes."""
    due = [0] * _WRITERS
    size = 0
    deadline = time.monotonic() + _LIMIT_S
    with commitlog.open(path, mode="r") as log, log.tailer() as tailer:
        while sum(due) < _WRITERS * _RECORDS:
            record = tailer.read(timeout=1.0)
            if record is None:
                if time.monotonic() > deadline:
                    raise OSError(
                        f"only {sum(due)} of {_WRITERS * _RECORDS} records arrived within "
                        f"{_LIMIT_S:g} s"
                    )
                continue
            writer = int.from_bytes(record.value[:4], "little")
            if writer >= _WRITERS or record.value != content(writer, due[writer]):
                raise OSError(
                    f"the record at position {record.position} differs from what the writer "
                    "appended"
                )
            due[writer] += 1
            size += len(record.value)
    return size
