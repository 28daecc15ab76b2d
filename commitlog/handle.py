"""LogHandle: the parts of one open log, wired together, taken over after a fork, and let go."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from commitlog._kernel.appender import Appender
from commitlog._kernel.core import GATE_CLOSED, GATE_FORKED
from commitlog._kernel.cursors import MODE_MAPPED, STATE_READY
from commitlog.errors import (
    ClosedError,
    CloseTimeoutError,
    CommitLogError,
    ForkedError,
    IOFailureError,
    ReadOnlyError,
    SyncTimeoutError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.flush.commit_service import CommitService
from commitlog.flush.flush_service import FlushService, flush_service
from commitlog.keep.listener import ListenerService
from commitlog.keep.pruner import LogState, Pruner
from commitlog.keep.retention import Retention
from commitlog.keep.retention_service import RetentionService
from commitlog.lending import PoolLender
from commitlog.opening import NEVER_DOUBTFUL, Opened
from commitlog.options import Options
from commitlog.pool.transient_store_pool import TransientStorePool
from commitlog.registry import registry
from commitlog.report_service import ReportService
from commitlog.rolling import Rolling
from commitlog.segment.allocation_service import AllocationService
from commitlog.segment.directory import LogDirectory
from commitlog.segment.events import NO_EVENTS, SegmentEvents
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.service import Service, start_lock
from commitlog.shared import cursors_file
from commitlog.shared.cursors_file import SlotLock
from commitlog.shared.lock_file import LockFile
from commitlog.tail.index import LogIndex
from commitlog.tail.lag import LagGuard
from commitlog.tail.tailer_file import TailerFile
from commitlog.tail.tailer_state import lowest_required

if TYPE_CHECKING:
    from commitlog.flush.acknowledge_service import AcknowledgeService
    from commitlog.turns import Turns

_logger = logging.getLogger("commitlog")
# Commits up to this many bytes go through the mapping, larger ones by pwrite: docs/decisions.md has the figures.
COPY_LIMIT = 16 << 10
# A pooled log's committer is woken each time this much was appended.
WAKE_BYTES = 1 << 20
_JOIN_S = 10.0


class LogHandle(Appender):
    """What `CommitLog` is made of below its operations: locks, slot, segments, services, and how they end."""

    options: Options
    mode: str

    # --- wiring ------------------------------------------------------------------------------------------------------

    def _wire(self, mode: str, opened: Opened, options: Options) -> None:
        self.mode = mode
        self.options = options
        self.directory: LogDirectory = opened.directory
        self.identity = opened.identity
        self._lock_file: LockFile | None = opened.lock_file
        self._slot_lock: SlotLock | None = None
        self._lender: PoolLender | None = None
        self._allocation: AllocationService | None = None
        self._listener: ListenerService | None = None
        self._services: list[Service] = []
        self._checkpoint_fd = -1
        self._flush_service: FlushService | None = None
        self._acknowledge_service: AcknowledgeService | None = None
        self._roll_lock = threading.RLock()
        self._close_lock = threading.RLock()
        self._closed = False
        self._lag_guard: LagGuard | None = None
        self._turns: Turns = {}
        self._named: weakref.WeakSet[TailerFile] = weakref.WeakSet()
        self._named_lock = threading.Lock()
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
        self.doubtful = opened.doubtful
        self.queue = MappedFileQueue(self, opened.directory)
        self._rolling = Rolling(self, opened.directory, self.queue)
        self.index = LogIndex(self, opened.directory, self.queue, spacing=options.index_spacing, writable=writable)
        if writable:
            self._wire_writer(opened)
            kind = "pooled" if opened.pooled else "mapped" if opened.exclusive else "mapped, beside others"
            _logger.info("%s: opened for writing (%s, flush=%r), ends at position %d", self.path, kind, options.flush, self.tail_position)
        elif opened.cursors.shared:
            self._watch_slots()
        registry.add(self)

    def _wire_writer(self, opened: Opened) -> None:
        assert opened.lock_file is not None
        self.directory.fail_log = self.fail
        if opened.pooled:
            self.tail = opened.tail
            pool = cast(TransientStorePool, self.options.pool)
            self._lender = PoolLender(pool, f"log {self.path}", opened.identity.uuid, opened.lock_file, opened.holder)
        self._take_slot()
        self.keep_index(self.options.index_spacing)
        self._checkpoint_fd = checkpoints.open_for_writing(opened.directory.fd)
        self.keep_checkpoint(self._checkpoint_fd, opened.checkpoint_count, int(self.options.checkpoint_interval * 1e9))
        if opened.exclusive:
            self._announce(opened)
        # Only now: whoever declares a tailer required from here on finds the cursors in which to tell of it.
        self._lag_guard = LagGuard(
            self,
            self.directory,
            on_lag=self.options.on_lag,
            timeout_s=self.options.lag_timeout,
            evict_after_s=self.options.evict_after,
        )
        self._lag_guard.begin()
        self._start_listener()
        self._allocation = AllocationService(
            self, opened.directory, self.queue, self.options, self._lender, events=self._listener or NO_EVENTS
        )
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
        slot_lock = SlotLock(self.directory.fd, writable=True)
        try:
            self.attach_slot(*slot_lock.descriptors)
        except BaseException:
            slot_lock.close()
            raise
        # Only now: until here the kernel asks who lives through the one that there was.
        if self._slot_lock is not None:
            self._slot_lock.close()
        self._slot_lock = slot_lock
        self.setup_writer(
            precise=self.identity.timestamps == "precise",
            by_time=self.identity.roll_cycle is not None,
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
        self._pruner = Pruner(self.directory, self._log_state())
        if self.options.retention is not None:
            self._services.append(RetentionService(self.path, cast(Retention, self.options.retention), self._pruner))
        self._services.append(ReportService(self))
        for service in self._services:
            service.start()

    def _start_listener(self) -> SegmentEvents:
        if self.options.listener is None:
            return NO_EVENTS
        self._listener = ListenerService(self.directory, self.options.listener)
        self._listener.start()
        self.queue.watch(self._listener)
        return self._listener

    def _log_state(self) -> LogState:
        """What the pruner must know of this log."""
        return LogState(
            flushed_position=lambda: self.flushed_position,
            lowest_required=lambda: lowest_required(self.directory),
            holders=self.queue.holders,
            remove=lambda number: self.queue.delete(number, 0.0),
            settle=self.directory.sync,
            check=lambda: None,  # this handle has written here, and holds the lock
        )

    def _watch_slots(self) -> None:
        """Whoever has no slot wants to know, too, whose owner lives."""
        self._slot_lock = SlotLock(self.directory.fd, writable=False)
        self.watch_slots(*self._slot_lock.descriptors)

    def find_cursors(self) -> None:
        """A reader that found no live cursors when it was opened goes on with those that the first writer since has made."""
        if not self._close_lock.acquire(blocking=False):
            return  # another thread is at it, or closes the log
        try:
            if self._closed or self.cursors.shared or self.directory.detached:
                return
            live = cursors_file.find(self.directory.fd, self.identity)
            if live is not None and live.ready:
                self.cursors.become(live.cells)
                self._watch_slots()
                # Whoever made them has recovered the log first.
                self.doubtful = NEVER_DOUBTFUL
        except OSError:
            return  # out of descriptors or memory at the moment: the next look may find both
        finally:
            self._close_lock.release()

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
            self._checkpoint_fd = -1
        if getattr(self, "queue", None) is not None:
            self._unmap()
        opened.close()

    # --- what the compiled base asks ---------------------------------------------------------------------------------

    def roll_from(self, number: int) -> None:
        """Bring the next segment and move the tail there. One thread of this process does it; others find it done."""
        assert self._allocation is not None
        with self._roll_lock:
            tail = self.tail
            if tail is None or tail[0] != number or tail[1] < self.segment_size:
                return
            self._allocation.bring(number + 1)
            opened_ns = self.open_segment(number + 1, self._rolling.time_after(number))
            self.move_tail(number, opened_ns, self.directory.cycle_at(opened_ns))
            _logger.debug("%s: rolled to the segment at position %d", self.path, (number + 1) * self.segment_size)

    def meet_cycle(self) -> None:
        """Close the current segment where its cycle is over."""
        self._rolling.close_if_over()

    def hold_back(self, records: int) -> bool:
        """A required tailer may be too far behind for an append of so many records: wait or raise; True where they are dropped."""
        assert self._lag_guard is not None
        return self._lag_guard.hold(records)

    def adopt(self) -> None:
        """First use in the child of a fork: a mapped log takes a lock, a slot and services of its own.

        Raises
        ------
        ForkedError
            A pooled log stays with the process that opened it.
        """
        if self.pooled or self._pid == os.getpid():
            raise ForkedError("a pooled log belongs to the process that opened it: open the log again in this one", path=self.path)
        with self.directory.telling("take the log over in the child of a fork"):
            self._adopt()

    def _adopt(self) -> None:
        lock_file = LockFile(self.directory.fd)
        try:
            if not self._rejoin(lock_file):
                raise ForkedError("the log was closed or is locked since the fork: open it again in this process", path=self.path)
            self._take_slot()
        except BaseException:
            lock_file.close()
            raise
        self._pid = os.getpid()
        self._lock_file = lock_file
        events = self._start_listener()
        self._allocation = AllocationService(self, self.directory, self.queue, self.options, None, events=events)
        self.restart()
        self._start_services()
        registry.add(self)
        self.gate = 0
        if self.identity.roll_cycle is not None:
            self.meet_cycle()
        assert self._lag_guard is not None
        self._lag_guard.begin()

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
            self._listener = None
            self._acknowledge_service = None
            self._turns = {}
            self.watcher = None
            self._roll_lock = threading.RLock()
            self._close_lock = threading.RLock()
            self.queue.forked()
            self.index.forked()
            self.directory.forked()
            self._named_lock = threading.Lock()
            if self.mode != "r":
                self.gate = GATE_FORKED
            if self._slot_lock is not None and (self.mode == "r" or not self.pooled):
                # By a description of its own: it may be the parent that dies, and its claim that is in the way of what the child reads.
                with contextlib.suppress(OSError):  # where no descriptor is free, the claim timeout decides
                    self._watch_slots()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def place(self) -> tuple[int, int] | None:
        """Which directory a writable handle is on, by device and inode; None for a reader's or a closed one."""
        return None if self.mode == "r" or self._closed else self.directory.place

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

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit and flush everything, whatever ``flush=`` is, then let go of the log. Idempotent.

        Raises
        ------
        CloseTimeoutError
            `close_timeout` passed. Nothing is dropped: the log goes on draining, and `close` can be called again.
        LogFailedError, IOFailureError
            The log had failed, or the system refused what closing needs; it is closed all the same, and the next open recovers it.
        """
        with self._close_lock:
            if self._closed:
                return
            if self._pid != os.getpid() or self.mode == "r":
                self._let_go()
                return
            with start_lock:  # from here on no coroutine starts the service that acknowledges
                self.gate = GATE_CLOSED
            failure = self._drain()
            try:
                try:
                    if failure is None:
                        self._seal()
                finally:  # Ctrl-C, too: the log is let go of, and so is all that its threads use
                    self._stop_services()
                if failure is None:
                    self._mark_clean()
            except CommitLogError as error:
                failure = failure or error
            finally:
                self.detach_slot()
                if self._lender is not None:
                    self._lender.end()
                self._let_go()
            if failure is not None:
                raise failure
            _logger.info("%s: closed", self.path)

    def _drain(self) -> CommitLogError | None:
        """Commit and flush what is left; the error for which the log is closed without a clean mark."""
        try:
            self.flush_to(self.tail_position, self.options.close_timeout)
            self.check_failed()
        except SyncTimeoutError as error:
            raise CloseTimeoutError(
                f"not everything was durable within {self.options.close_timeout:g} s: nothing is dropped, call close() again",
                path=self.path,
                position=error.position,
            ) from error
        except CommitLogError as error:
            return error
        return None

    def _seal(self) -> None:
        """Whoever prunes, archives or searches a closed log finds each segment sealed that was rolled past."""
        assert self._allocation is not None
        try:
            with self.directory.telling("seal the log's segments"):
                self._allocation.sealed_below()
        except CommitLogError as error:
            _logger.warning("%s: not every segment could be sealed, the next open goes on with it: %s", self.path, error)

    def _stop_services(self) -> None:
        self.stop()
        try:
            for service in self._services:
                service.join(_JOIN_S)
            if self._acknowledge_service is not None:
                self._acknowledge_service.stop()
                self._acknowledge_service.join(_JOIN_S)
        finally:
            if self._allocation is not None:
                self._allocation.give_back_all()

    def _mark_clean(self) -> None:
        """The last handle to leave notes that nothing is in doubt; the lock is the last one's when nobody else shares it."""
        assert self._lock_file is not None
        with self.directory.telling("mark the log as closed cleanly"):
            if self._lock_file.acquire("exclusive"):
                # Others may have appended since this handle's own flush, and died, or the log has failed under them.
                self.flush_to(self.tail_position, self.options.close_timeout)
                self.check_failed()
                self._count_on()
                self.write_checkpoint(self.tail_position, True)

    def _count_on(self) -> Checkpoint | None:
        """Go on counting checkpoints where the file is, which another handle may have written last; what it says."""
        found = checkpoints.read_open(self._checkpoint_fd, self.identity.uuid)
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
        with start_lock:  # from here on no watcher is started
            self.gate = GATE_CLOSED
        if self.watcher is not None:
            self.watcher.stop()
        with self._named_lock:
            named = list(self._named)
        for file in named:
            with contextlib.suppress(IOFailureError):  # a place was not made durable: its records come again
                file.close()
        if self._pid == os.getpid():
            self._unmap()
        registry.discard(self)
        self.leave_kernel()

    def release_files(self) -> None:
        """Close what calls in the kernel use: at the end of `close`, or of the last call of another thread."""
        self.keep_checkpoint(-1, 0, 0)
        if self._checkpoint_fd >= 0:
            os.close(self._checkpoint_fd)
            self._checkpoint_fd = -1
        if self._slot_lock is not None:
            self._slot_lock.close()
            self._slot_lock = None
        if self._pid == os.getpid():
            self.directory.close()
        if self._lock_file is not None:
            self._lock_file.close()
        self.cursors.part()

    def _unmap(self) -> None:
        """Let go of every segment; views, tailers and open claims keep theirs."""
        self.queue.close()
        self.drop_segment()
        self.trim(1 << 62, 0)
        if self._listener is not None:
            self._listener.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
