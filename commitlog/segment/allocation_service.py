"""AllocationService: allocates and prefaults the next segments before an appender needs them, and
returns drained buffers to the pool.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

from commitlog._kernel.engine import REFUSED_LAG, Writer
from commitlog._kernel.memory import Memory
from commitlog.base.polling import attempts
from commitlog.base.service import Service
from commitlog.errors import (
    ClosedError,
    CommitLogError,
    DiskFullError,
    LogFailedError,
    PositionError,
)
from commitlog.options import Options
from commitlog.segment import blocks
from commitlog.segment.directory import LogDirectory
from commitlog.segment.disk_monitor import DiskMonitor
from commitlog.segment.events import NO_EVENTS, SegmentEvents
from commitlog.segment.mapped_file import MappedFile
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.pretoucher import Pretoucher
from commitlog.segment.seals import Sealer
from commitlog.segment.unused_blocks import UnusedBlocks

_logger = logging.getLogger("commitlog.segment")

_ROUND_S = 0.25  # how long the thread sleeps where no event wakes it
# How long to wait for another handle that creates the segment: that handle may be stopped.
_PATIENCE_S = 0.001
_PATIENCE_STEP_S = 0.0001
_LOOK_S = 1.0  # from one look at the room on the disk to the next
_RETRY_S = 1.0  # after a failed allocation, which the appender would report itself if it came first


class LeasedBuffer(Protocol):
    """The part of a pool's buffer that segments use."""

    @property
    def memory(self) -> Memory: ...


class BufferLender(Protocol):
    """Lends buffers. The log implements it, so that this package does not depend on the pool."""

    def try_lend(self) -> LeasedBuffer | None:
        """A free buffer, if there is one now."""

    def lend(self) -> LeasedBuffer | None:
        """Return a buffer by the pool's policy: wait, raise, or return None if the segment gets
        none.
        """

    def bind(self, buffer: LeasedBuffer, file: MappedFile) -> None:
        """Note durably which segment the buffer holds from now on, before the first claim in it."""

    def give_back(self, buffer: LeasedBuffer) -> None:
        """Take back a buffer that is fully committed or was never used."""


class _Lease:
    """Lives as long as the log, or a claim's view that outlives the log, needs a buffer."""


class _Attached(NamedTuple):
    """A segment with its buffer. The token holds it, so that it is not deleted before the buffer is
    detached.
    """

    file: MappedFile
    buffer: LeasedBuffer
    lease: _Lease
    token: int


class AllocationService(Service):
    """Allocates segments ahead. The appender that rolls finds the next one in place, or, if it was
    faster, does the same work itself.

    The model is RocketMQ's AllocateMappedFileService, which makes the needed file and its
    successor.
    """

    def __init__(
        self,
        core: Writer,
        directory: LogDirectory,
        queue: MappedFileQueue,
        options: Options,
        lender: BufferLender | None,
        *,
        events: SegmentEvents = NO_EVENTS,
    ) -> None:
        super().__init__(f"commitlog allocate {core.path}")
        self._core = core
        self._directory = directory
        self._queue = queue
        self._options = options
        self._lender = lender
        self._unused = UnusedBlocks(directory, queue)
        self._events = events
        # Three locks, so that an appender that rolls never waits for work that is done ahead.
        self._place_lock = threading.Lock()
        self._attach_lock = threading.Lock()
        self._seal_lock = threading.Lock()
        self._synced_below = 0
        self._attached: dict[int, _Attached] = {}
        self._closed = False
        self._sealer = Sealer(directory, queue, options.tuning.index_spacing, events)
        self._pretoucher = Pretoucher(core, queue, options)
        # With a pool, the buffers take the page faults instead.
        self._pretouches = options.prefault and lender is None
        if events is not NO_EVENTS:
            self._sealer.begin(core.committed_position // core.segment_size)
        self._retry_at = 0.0
        self._look_at = 0.0
        self.disk = DiskMonitor(directory, options)

    # --- what the appender calls ------------------------------------------------------------------

    def bring(self, number: int) -> None:
        """Make segment `number` ready for claims: its file in place and durable, its buffer
        attached.

        Raises
        ------
        DiskFullError, PoolExhaustedError, IOFailureError, LogFailedError, ClosedError
            It could not be; the tail stays where it is.
        """
        with self._directory.telling("bring the next segment"):
            self._check_open()
            self._place(number, needed=True)
            if self._lender is not None:
                self._attach(number)

    def _place(self, number: int, *, needed: bool) -> None:
        """Create a segment file durably, if it is missing. If it is not needed yet, leave it to the
        handle that is creating it.
        """
        if number < self._synced_below:
            return
        with self._place_lock:
            if number < self._synced_below:
                return
            patience_s = _PATIENCE_S if needed else 0.0
            for _ in attempts(patience_s, f"segment {number}", interval_s=_PATIENCE_STEP_S):
                alone = self._core.try_creation()
                if alone or self._directory.has(number):
                    break
            try:
                if self._directory.has(number):
                    # Another handle renamed the file: the handle that moves the tail must itself
                    # sync the directory.
                    self._directory.sync()
                elif alone or needed:
                    self._create(number)
                else:
                    return
            finally:
                if alone:
                    self._core.end_creation()
            # Another process created the numbers in between. The first call, at the open, is for
            # the tail's segment.
            created = range(self._synced_below or number + 1, number + 1)
            self._synced_below = number + 1
        for new in created:
            self._events.created(new)

    def _create(self, number: int) -> None:
        self._queue.drop_deleted()
        with self._admitted(self._core.segment_size):
            self._directory.create_segment(number)

    @contextmanager
    def _admitted(self, size: int) -> Iterator[None]:
        """Ask the monitor for room on the disk, and tell it whether there was."""
        self.disk.admit(size)
        try:
            yield
        except DiskFullError:
            self.disk.refused()
            raise
        self.disk.admitted()

    def grow(self, number: int, end: int) -> None:
        """Give the segment in use blocks for claims that reach to `end`, unless it has them.

        Raises
        ------
        DiskFullError, IOFailureError
            There is no room for them, or the system refused; the tail stays where it is.
        """
        with self._directory.telling("grow the segment in use"), self._place_lock:
            start = self._core.allocated(number)
            stop = blocks.blocks_for(self._core.segment_size, end)
            if start < stop:
                with self._admitted(stop - start):
                    blocks.grow(self._directory, number, start, stop)
                self._core.raise_allocated(number, stop)

    def _attach(self, number: int) -> None:
        """Attach a pool buffer to a segment, unless it has one already or the pool's policy gives
        none.
        """
        assert self._lender is not None
        held = self._queue.hold(number, "its pool buffer", briefly=True)
        if held is None:
            raise PositionError(
                "the segment is being deleted", path=self._directory.segment_path(number)
            )
        file, token = held
        with ExitStack() as undo:
            undo.callback(file.release, token)
            if number in self._attached or file.segment.buffered:
                return
            # Returning a drained buffer zeroes it: the thread does that as long as another buffer
            # is free.
            buffer = self._lender.try_lend()
            if buffer is None:
                # Every buffer is lent. One of this log's may only lack its commit.
                self._core.commit(self._core.tail_position)
                self.give_back_drained()
                buffer = self._lender.lend()
            if buffer is None:
                return
            undo.callback(self._lender.give_back, buffer)
            with self._attach_lock:
                self._check_open()
                if number in self._attached:
                    return
                lease = _Lease()
                self._lender.bind(buffer, file)
                self._core.attach(file.segment, buffer.memory, lease)
                self._attached[number] = _Attached(file, buffer, lease, token)
                undo.pop_all()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the log is closed: open it again", path=self._core.path)

    def give_back_drained(self) -> None:
        """Return the buffers whose segments are committed whole."""
        with self._attach_lock:
            drained = [
                number
                for number, attached in self._attached.items()
                if attached.file.segment.drained
            ]
            taken = [self._attached.pop(number) for number in drained]
            self._detach(taken)
        for attached in taken:
            assert self._lender is not None
            self._lender.give_back(attached.buffer)

    def _detach(self, taken: list[_Attached]) -> None:
        for attached in taken:
            self._core.detach(attached.file.segment)
            attached.file.release(attached.token)

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        seen = 0
        while not self._core.stopping:
            seen = self._core.wait_event(seen, self._round())

    def _round(self) -> float:
        """Do the work that is due; return the seconds until the next round, unless an event comes
        sooner.
        """
        try:
            with self._directory.telling("allocate ahead of need"):
                return self._work()
        except LogFailedError:
            pass  # the log itself reports that, once
        except DiskFullError:
            self._retry_at = time.monotonic() + _RETRY_S  # the monitor has logged it
        except CommitLogError as error:
            self._retry_at = time.monotonic() + _RETRY_S
            _logger.warning(
                "allocating ahead of need failed, the next append that needs it will say: %s", error
            )
        return _ROUND_S

    def _work(self) -> float:
        rest_s = _ROUND_S
        if self._lender is not None:
            self.give_back_drained()
        tail = self._core.tail
        assert tail is not None
        number, offset = tail
        self._end_cycle()
        if time.monotonic() >= self._retry_at and not self._core.failed:
            self._grow_ahead(number, offset)
            self._allocate_ahead(number)
        if self._pretouches:
            rest_s = (
                0.0 if self._pretoucher.step(self.allocated_position) else self._pretoucher.rest_s
            )
        if self._core.tail_position // self._core.segment_size > self._sealer.reached:
            self.sealed_below()
        self._unused.give_back_below(
            min(self._sealer.reached, self._core.flushed_position // self._core.segment_size)
        )
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._queue.drop_deleted()
            self.disk.look()
        return rest_s

    def _end_cycle(self) -> None:
        """End the cycle of an idle log too, so that its segments can be sealed."""
        end_ns = self._core.cycle_end_ns
        if (
            end_ns is not None
            and time.time_ns() >= end_ns
            and self._core.refusal in (0, REFUSED_LAG)
            and not self._core.failed
        ):
            self._core.meet_cycle()

    def _grow_ahead(self, number: int, offset: int) -> None:
        """Double the blocks of a segment that lacks some once half of them are used."""
        allocated = self._core.allocated(number)
        if allocated // 2 < offset < self._core.segment_size and self._lacks_blocks(number):
            self.grow(number, allocated)

    def _lacks_blocks(self, number: int) -> bool:
        return self._core.allocated(number) < self._core.segment_size

    def _allocate_ahead(self, number: int, *, needed: bool = False) -> None:
        """Create the segments behind one that has all of its blocks."""
        if self._lacks_blocks(number):
            return
        for ahead in range(1, self._options.tuning.allocate_ahead + 1):
            self._place(number + ahead, needed=needed)

    @property
    def allocated_position(self) -> int:
        """The position at which the allocated segments end, or the blocks of the one in use."""
        size = self._core.segment_size
        number = self._core.tail_position // size
        allocated = self._core.allocated(number)
        if allocated < size:
            return number * size + allocated
        return max(self._synced_below, number + 1) * size

    def pretouch(self) -> int:
        """Allocate and prefault the next segments; return the position up to which that is done.

        Raises
        ------
        DiskFullError, IOFailureError
            There is no room for them, or a system call failed.
        """
        tail = self._core.tail
        assert tail is not None
        with self._directory.telling("bring the next segments"):
            self.grow(tail[0], self._core.segment_size)
            self._allocate_ahead(tail[0], needed=True)
            while self._pretoucher.step(self.allocated_position):
                pass
        return self._pretoucher.touched_position

    def sealed_below(self) -> int:
        """Seal the committed segments; return the number below which all are sealed."""
        with self._seal_lock:
            # The sealer reads the file, which holds a pooled log's records once they are committed.
            self._sealer.seal_below(self._core.committed_position // self._core.segment_size)
            return max(0, self._sealer.reached)

    # --- the end ----------------------------------------------------------------------------------

    def give_back_all(self) -> None:
        """Return every buffer, committed whole or not: after the log is drained, or has failed.

        A roll of another thread may still wait for a buffer. It raises `ClosedError`, and returns
        the buffer that it gets.

        A claim that is still open was rolled back, but may have a view of its buffer and write to
        it. That buffer is returned once the view is released.
        """
        with self._attach_lock:
            self._closed = True
            taken, self._attached = list(self._attached.values()), {}
            self._detach(taken)
        while taken:
            assert self._lender is not None
            _, buffer, lease, _ = taken.pop()
            weakref.finalize(lease, self._lender.give_back, buffer).atexit = False
            del lease  # the last reference to it, where no view is left
