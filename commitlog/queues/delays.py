"""Delays: appends jobs to their log when their time has come."""

from __future__ import annotations

import contextlib
import logging
import os
import time

from commitlog import CommitLog
from commitlog.base.failpoint import failpoint
from commitlog.base.life_lock import LifeLock, byte, open_lock_file
from commitlog.base.path import make_directory, translate_errors
from commitlog.base.service import Service
from commitlog.errors import (
    CommitLogError,
    DiskFullError,
    InUseError,
    IOFailureError,
    PositionError,
    ProducerSequenceError,
    RecordTooLargeError,
)
from commitlog.extension import LogView, view_of
from commitlog.queues.compiled.leases import fingerprint
from commitlog.queues.delayed_log import PUT, DelayedJob, DelayedLog, Move, path_of
from commitlog.queues.due_index import DueIndex
from commitlog.queues.parts import check_place
from commitlog.queues.recovery import has_record

PRODUCER = "queue delayed"
_LOCK_NAME = ".mover"
_TRY_S = 0.2  # between tries to become the one that moves jobs
_LOOK_S = 1.0  # the clock may be set
_AGAIN_S = 10.0  # until the delayed log is opened again that could not be
_AT_ONCE = 1000
_JOIN_S = 10.0

_logger = logging.getLogger("commitlog")


class Delays:
    """The delayed jobs of a log, for one handle of it. One process at a time moves them."""

    def __init__(self, log: CommitLog, view: LogView) -> None:
        self._view = view
        self._log_path = log.path
        self._delayed: DelayedLog | None = None
        self._mover: _Mover | None = None
        self._pid = os.getpid()
        self._try_s = 0.0
        view.at_close(self.close)

    def run(self, log: CommitLog) -> None:
        """Have a thread that moves due jobs, if there are delayed ones at all."""
        if self._pid != os.getpid():  # the thread is the parent's
            self._pid, self._mover = os.getpid(), None
        if self._mover is not None or log.mode == "r" or time.monotonic() < self._try_s:
            return
        if os.path.exists(path_of(log.path)):
            try:
                mover = _Mover(log, self._opened(log))
                mover.start()
            except CommitLogError as error:  # the jobs of the log itself come all the same
                self._try_s = time.monotonic() + _AGAIN_S
                _logger.warning("delayed jobs of %s do not come: %s", log.path, error)
            else:
                self._mover = mover

    def put(self, log: CommitLog, job: DelayedJob, due_ns: int, sync: bool | None) -> int:
        framed = self._view.headers_length(job.headers) + len(job.key or b"")
        most = log.largest_value - framed
        if len(job.value) > most:
            raise RecordTooLargeError(
                f"the value has {len(job.value)} bytes, and a record of this log with its key at "
                f"most {most}: create the log with a larger segment_size",
                path=log.path,
                size=len(job.value),
                limit=most,
            )
        position = self._opened(log).put(job, due_ns, sync)
        self.run(log)
        return position

    def _opened(self, log: CommitLog) -> DelayedLog:
        if self._delayed is None:
            check_place(self._view)
            where = os.path.dirname(path_of(log.path))
            with translate_errors(where, "make the folder of delayed jobs"):
                make_directory(where)
            self._delayed = DelayedLog(log)
        return self._delayed

    def close(self) -> None:
        if self._mover is not None and self._pid == os.getpid():
            self._mover.join(_JOIN_S)
        if self._delayed is not None:
            self._delayed.log.close()


def delays_of(log: CommitLog) -> Delays:
    """Return the delayed jobs of an open log."""
    view = view_of(log)
    return view.state(Delays, lambda: Delays(log, view))


class _Mover(Service):
    """Wait for the next job that is due, and append it."""

    def __init__(self, log: CommitLog, delayed: DelayedLog) -> None:
        super().__init__(f"commitlog delay {log.path}")
        self._log = log
        self._delayed = delayed
        self._number = 0

    def run(self) -> None:
        folder = os.open(os.path.dirname(path_of(self._log.path)), os.O_RDONLY | os.O_CLOEXEC)
        try:
            lock = LifeLock(lambda: open_lock_file(_LOCK_NAME, folder), kind=None, span=byte(0))
        finally:
            os.close(folder)
        with contextlib.closing(lock):
            while not lock.acquire("exclusive"):
                if self.ending.wait(_TRY_S):
                    return
            while not self.ending.is_set():
                try:
                    self._move()
                except (DiskFullError, IOFailureError) as error:
                    _logger.warning("%s waits: %s", self.name, error)
                    self.ending.wait(_LOOK_S)

    def _move(self) -> None:
        """Move jobs until the end."""
        view = view_of(self._delayed.log)
        loaded = self._delayed.load(lambda print: has_record(self._log, print))
        index, self._number = loaded.due, loaded.number
        if loaded.unsure:
            self._complete(loaded.unsure)
        with self._delayed.log.tailer(start=loaded.end) as tailer:
            while not self.ending.is_set():
                seen = view.signal("append")
                for record in tailer:
                    if record.type == PUT:
                        index.add(self._delayed.due_of(record), record.position)
                positions = index.pop_due(time.time_ns(), _AT_ONCE)
                if positions:
                    self._move_all(positions)
                    self._shorten(index, tailer.position)
                    continue
                due_ns = index.next_ns
                left_s = _LOOK_S if due_ns is None else (due_ns - time.time_ns()) / 1e9
                if left_s > 0:
                    view.wait("append", seen, min(left_s, _LOOK_S))

    def _move_all(self, positions: list[int]) -> None:
        moves = [Move(self._number + 1 + i, each) for i, each in enumerate(positions)]
        self._delayed.begin_moves(moves)
        failpoint("moves begun")
        self._number = moves[-1].number
        self._complete(moves)

    def _complete(self, moves: list[Move]) -> None:
        """Append the jobs of moves that are durable, unless they are in the log."""
        last = -1
        for number, position in moves:
            while not self.ending.is_set():
                try:
                    last = max(last, self._append(number, position))
                    break
                except (InUseError, OSError):  # another handle has the name yet; a full disk
                    self.ending.wait(_LOOK_S)
            failpoint("job moved")
            if self.ending.is_set():
                return
        if last >= 0:
            self._log.flush()
            failpoint("moved jobs flushed")
            self._delayed.end_moves(moves[-1].number, last, fingerprint(self._log.read(last)))

    def _append(self, number: int, position: int) -> int:
        try:
            job = self._delayed.read(position)
        except PositionError:
            return -1  # moved long ago: its segment is deleted
        try:
            return self._log.append(
                job.value,
                key=job.key,
                type=job.type,
                headers=job.headers,
                producer=PRODUCER,
                producer_sequence=number,
            )
        except ProducerSequenceError:
            return -1  # appended long ago

    def _shorten(self, index: DueIndex, seen: int) -> None:
        """Delete segments of moved jobs, and nothing from `seen` on: jobs that were put meanwhile,
        and the last number.
        """
        low = index.lowest
        with contextlib.suppress(CommitLogError):
            self._delayed.delete_before(seen if low is None else min(low, seen))
