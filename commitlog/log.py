"""CommitLog: opens a log, wires its parts, closes it. What the parts do is theirs."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Any, Self, Unpack, cast

from commitlog._kernel.core import GATE_CLOSED, GATE_FORKED
from commitlog._kernel.cursors import MODE_MAPPED, STATE_READY
from commitlog._kernel.reader import Record
from commitlog._kernel.appender import Appender
from commitlog.errors import (
    ClosedError,
    CloseTimeoutError,
    CommitLogError,
    ForkedError,
    InvalidOptionError,
    LogFailedError,
    PositionError,
    ReadOnlyError,
    SyncTimeoutError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.flush.commit_service import CommitService
from commitlog.flush.flush_service import FlushService, flush_service
from commitlog.lending import PoolLender
from commitlog.life_lock import LifeLock
from commitlog.opening import Opened, check_mode, open_for_reading, open_for_writing, path_of, telling_of_refusals
from commitlog.options import Duration, OptionOverrides, Options, parse_duration
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.registry import registry
from commitlog.segment.allocation_service import AllocationService
from commitlog.segment.directory import LogDirectory
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.service import Service
from commitlog.shared import cursors_file
from commitlog.shared.lock_file import LockFile
from commitlog.stats import LogStats
from commitlog.tail.tailer import OnDamage, Start, Tailer, Visibility

# Commits up to this many bytes go through the mapping, larger ones by pwrite: docs/decisions.md has the figures.
COPY_LIMIT = 16 << 10
# A pooled log's committer is woken each time this much was appended.
WAKE_BYTES = 1 << 20
_JOIN_S = 10.0
_FORCE_AFTER_S = 5.0


class CommitLog(Appender):
    """An open log, from `commitlog.open`. A context manager; any thread may use it.

    `append`, `append_many`, `append_array` and `claim` come from the compiled base class, so that an append is one C call.
    """

    options: Options
    mode: str

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: str, options: Options) -> CommitLog:
        """See `commitlog.open`."""
        where = path_of(path)
        with telling_of_refusals(where):
            opened = open_for_reading(where) if mode == "r" else open_for_writing(where, mode, options)
            log = cls()
            try:
                log._wire(mode, opened, options)
            except BaseException:
                log._abandon(opened)
                raise
            return log

    # --- wiring ----------------------------------------------------------------------------------------------------

    def _wire(self, mode: str, opened: Opened, options: Options) -> None:
        self.mode = mode
        self.options = options
        self.directory: LogDirectory = opened.directory
        self._doubtful = opened.doubtful
        self._timestamps = opened.identity.timestamps
        self._uuid = opened.identity.uuid
        self._lock_file: LockFile | None = opened.lock_file
        self._slot_lock: LifeLock | None = None
        self._lender: PoolLender | None = None
        self._allocation: AllocationService | None = None
        self._services: list[Service] = []
        self._flush_service: FlushService | None = None
        self._roll_lock = threading.RLock()
        self._close_lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()
        writable = mode != "r"
        self.setup(
            opened.directory.path,
            opened.directory.fd,
            opened.identity.uuid,
            opened.identity.segment_size,
            opened.cursors,
            writable=writable,
            pooled=opened.pooled,
            claim_timeout_ns=int(options.claim_timeout * 1e9),
            copy_limit=COPY_LIMIT,
        )
        self.queue = MappedFileQueue(self, opened.directory)
        if writable:
            self._wire_writer(opened)
        elif opened.cursors.shared:
            self._slot_lock = cursors_file.open_slot_lock(opened.directory.fd, writable=opened.cursors.writable)
            self.watch_slots(self._slot_lock.descriptor)
        registry.add(self)

    def _wire_writer(self, opened: Opened) -> None:
        assert opened.lock_file is not None
        if opened.pooled:
            self.tail = opened.tail
            pool = cast(TransientStorePool, self.options.pool)
            self._lender = PoolLender(pool, f"log {self.path}", opened.identity.uuid, opened.lock_file, opened.holder)
        self._take_slot()
        self._checkpoint_fd = checkpoints.open_for_writing(opened.directory.fd)
        self.keep_checkpoint(self._checkpoint_fd, opened.checkpoint_count, int(self.options.checkpoint_interval * 1e9))
        if opened.exclusive:
            self._announce(opened)
        self._allocation = AllocationService(self, opened.directory, self.queue, self.options, self._lender)
        number, offset = opened.tail
        if offset < self.segment_size:
            self._allocation.bring(number)
        self._start_services()

    def _announce(self, opened: Opened) -> None:
        """The log is whole: take the clean mark away, durably, before anybody can claim, then let the others in."""
        assert opened.lock_file is not None
        # In both of its turns: one lost sector must not bring an old clean mark back.
        for _ in range(2):
            self.write_checkpoint(opened.end, False)
        self.cursors["state"] = STATE_READY
        if not opened.pooled:
            opened.lock_file.acquire("shared")

    def _take_slot(self) -> None:
        self._slot_lock = cursors_file.open_slot_lock(self.directory.fd)
        self.attach_slot(self._slot_lock.descriptor)
        self.setup_writer(
            precise=self._timestamps == "precise",
            wake_bytes=min(WAKE_BYTES, self.segment_size // 4),
            sync=self.options.flush == "sync",
            sync_timeout=self.options.sync_timeout,
        )

    def _start_services(self) -> None:
        assert self._allocation is not None
        self._flush_service = flush_service(self, self.options)
        self._services = [self._allocation, self._flush_service]
        if self.pooled:
            self._services.append(CommitService(self, self.options))
        for service in self._services:
            service.start()

    def _abandon(self, opened: Opened) -> None:
        """Opening failed half-way: let go of everything that it had taken."""
        self.gate = GATE_CLOSED
        if getattr(self, "_allocation", None) is not None:
            self._stop_services()
        if getattr(self, "_slot_lock", None) is not None:
            self._give_slot_back()
        if getattr(self, "_lender", None) is not None:
            cast(PoolLender, self._lender).end()
        if getattr(self, "_checkpoint_fd", -1) >= 0:
            os.close(self._checkpoint_fd)
        if getattr(self, "queue", None) is not None:
            self._unmap()
        opened.close()

    # --- what the compiled base asks -------------------------------------------------------------------------------

    def roll_from(self, number: int) -> None:
        """Bring the next segment and move the tail there. One thread of this process does it; others find it done."""
        assert self._allocation is not None
        with self._roll_lock:
            tail = self.tail
            if tail is None or tail[0] != number or tail[1] < self.segment_size:
                return
            self._allocation.bring(number + 1)
            self.move_tail(number, time.time_ns())

    def adopt(self) -> None:
        """First use in the child of a fork: a mapped log takes a lock, a slot and services of its own.

        Raises
        ------
        ForkedError
            A pooled log stays with the process that opened it.
        """
        if self.pooled or self._pid == os.getpid():
            raise ForkedError("a pooled log belongs to the process that opened it: open the log again in this one", path=self.path)
        lock_file = LockFile(self.directory.fd)
        if not self._rejoin(lock_file):
            lock_file.close()
            raise ForkedError("the log was closed or is locked since the fork: open it again in this process", path=self.path)
        self._pid = os.getpid()
        self._lock_file = lock_file
        self._take_slot()
        self._allocation = AllocationService(self, self.directory, self.queue, self.options, None)
        self.restart()
        self._start_services()
        self.gate = 0

    def _rejoin(self, lock_file: LockFile) -> bool:
        """Take the shared lock again after a fork. Where everybody else has closed the log meanwhile, its clean mark goes first; False
        where somebody has changed it in another way since, or holds it."""
        if not lock_file.acquire("exclusive"):
            return lock_file.acquire("shared", self.options.open_timeout) and self.cursors.mode == MODE_MAPPED
        mark = self._count_on()
        if self.cursors.mode != MODE_MAPPED or mark is None or not mark.clean or mark.position != self.tail_position:
            return False
        self.write_checkpoint(mark.position, False)
        return lock_file.acquire("shared")

    def forked(self) -> None:
        """Told in the child of a fork, before anything else runs there."""
        if not self._closed:
            self.after_fork()
            self._services = []
            self._roll_lock = threading.RLock()
            self._close_lock = threading.RLock()
            self.queue.forked()
            if self.mode != "r":
                self.gate = GATE_FORKED

    # --- positions -------------------------------------------------------------------------------------------------

    @property
    def first_position(self) -> int:
        """Where the oldest record that is still there starts, or would."""
        return self.queue.first_number * self.segment_size + 4096

    def read(self, position: int) -> Record:
        """The record at a position.

        Raises
        ------
        PositionError
            No record starts there, or it was deleted.
        CorruptRecordError
            It is damaged.
        """
        with Tailer(self, self.queue, start=position, visibility="appended", doubtful=self._doubtful) as tailer:
            record = tailer.read()
        if record is None or record.position != position:
            raise PositionError("no record starts here: use a position that an append or a record gave", path=self.path, position=position)
        return record

    def tailer(self, *, start: Start = "first", visibility: Visibility = "committed", on_damage: OnDamage = "raise") -> Tailer:
        """A reader's handle.

        Parameters
        ----------
        start : {"first", "end"} or int
            The oldest record, the present end, or a record's position.
        visibility : {"committed", "appended", "flushed"}
            "committed": what every process sees. "appended": also what only this process's pool buffers hold; a kill takes that
            back. "flushed": only what no crash can take back.
        on_damage : {"raise", "skip"}
            Raise `CorruptRecordError`, or go on at the next whole frame.

        Returns
        -------
        Tailer
        """
        self._check_open()
        return Tailer(self, self.queue, start=start, visibility=visibility, on_damage=on_damage, doubtful=self._doubtful)

    # --- commit, flush, roll ---------------------------------------------------------------------------------------

    def commit(self, upto: int | None = None) -> bool:
        """Move what is published from the pool to the segments: other processes see it, and a kill no longer takes it back.

        It is NOT durable by that; `flush` makes it so. A mapped log has nothing to commit.

        Returns
        -------
        bool
            False where an open claim holds a part of it up.
        """
        self._check_writable()
        return super().commit(self.tail_position if upto is None else self._position_of(upto, "upto"))

    def flush(self, timeout: Duration | None = None) -> int:
        """Make everything appended so far durable; commits first.

        Parameters
        ----------
        timeout : float or str, optional
            Seconds, or text like ``"500ms"``; `sync_timeout` by default.

        Returns
        -------
        int
            The position up to which the log is durable now.

        Raises
        ------
        ClaimError
            This thread has a claim open below.
        SyncTimeoutError, LogFailedError
            It is not known to be durable.
        """
        self._check_writable()
        seconds = self.options.sync_timeout if timeout is None else parse_duration(timeout, "timeout")
        end = self.tail_position
        self.check_claims(end)
        self.flush_to(end, seconds)
        return self.flushed_position

    def roll(self) -> None:
        """Close the current segment early: the next append starts a new one."""
        self._check_writable()
        self.close_segment()

    def delete_before(self, position: int, force_after: Duration = _FORCE_AFTER_S) -> list[str]:
        """Delete the whole segments below a position, oldest first, without leaving holes.

        The segment of the tail, those that are not flushed or not sealed yet, and the last one that is, stay.

        Parameters
        ----------
        position : int
            Nothing from here on is deleted.
        force_after : float or str
            Seconds, or text like ``"500ms"``, to wait for those who hold a segment.

        Returns
        -------
        list of str
            The files that were deleted.

        Raises
        ------
        SegmentHeldError
            Somebody still holds the next segment to go; those before it are deleted.
        """
        self._check_writable()
        wanted = self._position_of(position, "position") // self.segment_size
        seconds = parse_duration(force_after, "force_after")
        assert self._allocation is not None
        durable = self.flushed_position // self.segment_size
        # The last sealed segment stays: its seal says with which sequence the next one begins.
        number = min(wanted, durable, self._allocation.sealed_below() - 1)
        if number <= self.queue.first_number:
            return []
        self.queue.flush_header(number)
        return [self.directory.segment_path(removed) for removed in self.queue.delete_before(number, seconds)]

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the log is closed: open it again", path=self.path)

    def _check_writable(self) -> None:
        self._check_open()
        if self.mode == "r":
            raise ReadOnlyError("the log was opened for reading: open it with mode 'a' to write", path=self.path)
        if self.gate == GATE_FORKED:
            self.adopt()

    def _position_of(self, value: object, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise InvalidOptionError(f"{name} must be a position, an int from 0, not {value!r}", path=self.path)
        return value

    def stats(self) -> LogStats:
        """The log's figures at this moment."""
        log, writer = self.log_counters(), self.writer_counters()
        tail, appended, committed, flushed = self.tail_position, self.appended_position, self.committed_position, self.flushed_position
        pool = self.options.pool
        return LogStats(
            tail_position=tail,
            appended_position=appended,
            committed_position=committed,
            flushed_position=flushed,
            uncommitted_bytes=max(0, tail - committed),
            unflushed_bytes=max(0, tail - flushed),
            appends=writer["appends"],
            records=writer["records"],
            appended_bytes=writer["bytes"],
            refused_claims=writer["refused"],
            rolled_back_claims=log["rolled_back"],
            rolls=writer["rolls"],
            commits=log["commits"],
            committed_bytes=log["committed_bytes"],
            commit_seconds=log["commit_ns"] / 1e9,
            flushes=log["flushes"],
            flushed_bytes=log["flushed_bytes"],
            flush_seconds=log["flush_ns"] / 1e9,
            longest_flush_seconds=log["flush_longest_ns"] / 1e9,
            syncs=log["syncs"],
            failed=os.strerror(self.failed) if self.failed else None,
            pool=cast(Any, pool).stats() if pool is not None else None,
        )

    def __repr__(self) -> str:
        state = "closed" if getattr(self, "_closed", True) else f"mode {self.mode!r}, tail {self.tail_position}"
        return f"<CommitLog {self.path!r}, {state}>"

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit and flush everything, whatever ``flush=`` is, then let go of the log. Idempotent.

        Raises
        ------
        CloseTimeoutError
            `close_timeout` passed. Nothing is dropped: the log goes on draining, and `close` can be called again.
        LogFailedError, IOFailureError
            The log had failed, or its clean mark could not be written; it is closed all the same, and the next open recovers it.
        """
        with self._close_lock:
            if self._closed:
                return
            if self._pid != os.getpid() or self.mode == "r":
                self._let_go()
                return
            self.gate = GATE_CLOSED
            failure: CommitLogError | None = None
            try:
                self.flush_to(self.tail_position, self.options.close_timeout)
            except SyncTimeoutError as error:
                raise CloseTimeoutError(
                    f"not everything was durable within {self.options.close_timeout:g} s: nothing is dropped, call close() again",
                    path=self.path,
                    position=error.position,
                ) from error
            except LogFailedError as error:
                failure = error
            try:
                self._stop_services()
                self._seal_and_mark(clean=failure is None)
            except CommitLogError as error:
                failure = failure or error
            finally:
                self._let_go()
            if failure is not None:
                raise failure

    def _stop_services(self) -> None:
        self.stop()
        for service in self._services:
            service.join(_JOIN_S)
        if self._allocation is not None:
            self._allocation.give_back_all()

    def _seal_and_mark(self, *, clean: bool) -> None:
        """The last handle to leave notes that nothing is in doubt."""
        assert self._lock_file is not None
        end = self.tail_position
        self.drop_segment()
        self._give_slot_back()
        if clean and self._lock_file.acquire("exclusive"):
            self._count_on()
            self.write_checkpoint(end, True)
        if self._lender is not None:
            self._lender.end()

    def _count_on(self) -> Checkpoint | None:
        """Go on counting checkpoints where the file is, which another handle may have written last; what it says."""
        found = checkpoints.read(self.directory.fd, self._uuid)
        count = found.count if found is not None else 0
        self.keep_checkpoint(self._checkpoint_fd, count, int(self.options.checkpoint_interval * 1e9))
        return found

    def _give_slot_back(self) -> None:
        self.detach_slot()
        if self._slot_lock is not None:
            self._slot_lock.close()
            self._slot_lock = None

    def _let_go(self) -> None:
        self._closed = True
        self.gate = GATE_CLOSED
        self.keep_checkpoint(-1, 0, 0)
        if getattr(self, "_checkpoint_fd", -1) >= 0:
            os.close(self._checkpoint_fd)
            self._checkpoint_fd = -1
        if self._slot_lock is not None:
            self._slot_lock.close()
        if self._pid == os.getpid():
            self._unmap()
            self.directory.close()
        if self._lock_file is not None:
            self._lock_file.close()
        registry.discard(self)

    def _unmap(self) -> None:
        """Let go of every segment; views, tailers and open claims keep theirs."""
        self.queue.close()
        self.drop_segment()
        self.trim(1 << 62, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def open_log(
    path: str | os.PathLike[str], mode: str = "a", options: Options | None = None, **overrides: Unpack[OptionOverrides]
) -> CommitLog:
    """Open a log, creating it where there is none.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    mode : {"a", "x", "r"}
        "a": append, create if missing. "x": create, must not exist. "r": read only, never creates and changes no record.
    options : Options, optional
        The knobs, reusable for several logs.
    **overrides
        Single options by name: see `Options`.

    Returns
    -------
    CommitLog
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, LogNotFoundError, LogExistsError, NotALogError, LogLockedError, OpenTimeoutError
        Why it could not be opened; nothing was changed.
    UnsupportedVersionError, UnsupportedFileSystemError, CorruptSegmentError, ReadOnlyError, DiskFullError
        The same, for what was found there.
    """
    check_mode(mode)
    return CommitLog.open(path, mode, Options.of(options, **overrides))
