"""AllocationService: allocates and prefaults the next segments before an appender needs them, and
returns drained buffers to the pool.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from commitlog._kernel.engine import REFUSED_LAG, Writer, wait_event
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.allocation.disk_monitor import DiskMonitor
from commitlog.allocation.pretoucher import Pretoucher
from commitlog.allocation.segment_buffers import SegmentBuffers
from commitlog.base.failpoint import failpoint
from commitlog.base.polling import attempts
from commitlog.base.section import Entry, Section
from commitlog.base.service import Service
from commitlog.base.turn import Turn
from commitlog.errors import ClosedError, CommitLogError, DiskFullError, LogFailedError
from commitlog.options import Options
from commitlog.options.tuning import ALLOCATE_AHEAD_MOST
from commitlog.segment import blocks
from commitlog.segment.blocks import UnusedBlocks
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.segment.seals import Sealer

_RESERVE = 2.0  # safety factor: a creation may take this many times the slowest recent one
_MEMORY = 0.75  # decay of the slowest creation time with each further creation


class AheadCount:
    """The number of segments that appends fill while one is made, one to eight; or a `fixed`
    number.
    """

    def __init__(self, fixed: int | None) -> None:
        self._fixed = fixed
        self._number: int | None = None
        # None: the tail was already in the segment at the first call.
        self._entered_s: float | None = None
        self._fill_s = math.inf
        self._make_s = 0.0

    def tail_in(self, number: int, now_s: float) -> None:
        """Record the tail's segment at a time; the time between rolls is the time to fill one."""
        if self._number is not None:
            if number <= self._number:
                return
            if self._entered_s is not None:
                self._fill_s = (now_s - self._entered_s) / (number - self._number)
            self._entered_s = now_s
        self._number = number

    def note_time(self, seconds: float) -> None:
        self._make_s = max(seconds, self._make_s * _MEMORY)

    @property
    def value(self) -> int:
        """The number of segments that are to exist behind the tail's."""
        if self._fixed is not None:
            return self._fixed
        if self._fill_s <= 0:
            return ALLOCATE_AHEAD_MOST
        return min(1 + int(_RESERVE * self._make_s / self._fill_s), ALLOCATE_AHEAD_MOST)


_logger = logging.getLogger("commitlog.segment")

_ROUND_S = 0.25  # how long the thread sleeps where no event wakes it
# How long to wait for another handle that creates the segment: that handle may be stopped.
_PATIENCE_S = 0.001
_PATIENCE_STEP_S = 0.0001
_SEAL_WAIT_S = 10.0  # for a thread that seals
_LOOK_S = 1.0  # between two checks of the free disk space
# Bytes of a segment that are pre-faulted before a roll into it.
_FIRST_BYTES = 64 << 10
# After a failed allocation; an appender that needs the segment earlier reports the error itself.
_RETRY_S = 1.0


class AllocationService(Service):
    """Allocates segments ahead. The appender that rolls finds the next one in place, or, if it was
    faster, does the same work itself.

    The model is RocketMQ's AllocateMappedFileService, which makes the needed file and its
    successor.
    """

    def __init__(
        self,
        core: Writer,
        queue: MappedFileQueue,
        options: Options,
        buffers: SegmentBuffers | None,
    ) -> None:
        super().__init__(f"commitlog allocate {core.path}")
        self._core = core
        self._directory = queue.directory
        self._queue = queue
        self._options = options
        self._unused = UnusedBlocks(queue)
        # Two of them, so that an appender that rolls does not wait for a seal.
        self._place_turn = Turn()
        self._sealing = Section()
        self._synced_below = 0
        self._faulted_below = 0
        self._rolls = 0
        self._ahead = AheadCount(options.tuning.allocate_ahead)
        self._closed = False
        self._buffers = buffers
        self._sealer = Sealer(queue, options.tuning.index_spacing)
        self._pretoucher = Pretoucher(core, queue, options)
        # With a pool, the buffers take the page faults instead.
        self._pretouches = options.prefault and buffers is None
        if queue.watched:
            self._sealer.begin(core.committed_position // core.segment_size)
        self._retry_at = 0.0
        self._look_at = 0.0
        self.disk = DiskMonitor(queue.directory, options)

    # --- what the appender calls ------------------------------------------------------------------

    def bring(self, number: int, *, opening: bool = False) -> None:
        """Make segment `number` ready for claims: its file in place and durable, its buffer
        attached. If this raises, the tail stays where it is. While the log is `opening`, the tail
        is in the segment already.
        """
        with self._directory.translate_errors("prepare the next segment"):
            if self._closed:
                raise ClosedError("the log is closed: open it again", path=self._core.path)
            self._place(number, needed=True)
            if self._buffers is not None:
                self._buffers.attach(number, opening=opening)

    def _place(self, number: int, *, needed: bool) -> bool:
        """Create a segment file durably, if it is missing. If it is not needed yet, leave it to the
        handle that is creating it, and return False.
        """
        if number < self._synced_below:
            return True
        self._queue.drop_deleted()  # first, because a mapping keeps disk space in use
        with self._place_turn.taken():
            if number < self._synced_below:
                return True
            if not self._ensure(number, needed=needed):
                return False
            # Another process created the segments in between. The first call, at the open, is for
            # the tail's segment.
            created = range(self._synced_below or number + 1, number + 1)
            self._synced_below = max(self._synced_below, number + 1)
        for new in created:
            self._queue.report("created", new)
        return True

    def _ensure(self, number: int, *, needed: bool) -> bool:
        """Create a segment unless there is one; return False if it is left to another handle."""
        patience_s = _PATIENCE_S if needed else 0.0
        for _ in attempts(patience_s, f"segment {number}", interval_s=_PATIENCE_STEP_S):
            alone = self._core.try_creation()
            if alone or self._directory.has(number):
                break
        try:
            if self._directory.has(number):
                # Another handle renamed the file: the handle that moves the tail must itself sync
                # the directory.
                self._directory.sync()
            elif alone or needed:
                self._create(number)
            else:
                return False
        finally:
            if alone:
                self._core.end_creation()
        return True

    def _create(self, number: int) -> None:
        began_s = time.monotonic()
        with self._admitted(self._core.segment_size):
            self._directory.create_segment(number, durable=self._core.flushed_position)
        self._ahead.note_time(time.monotonic() - began_s)

    @contextmanager
    def _admitted(self, size: int) -> Iterator[None]:
        """Ask the monitor for space on the disk, and report whether the disk had it."""
        self.disk.admit(size)
        try:
            yield
        except DiskFullError:
            self.disk.note_refusal()
            raise
        self.disk.note_success()

    def grow(self, number: int, end: int) -> None:
        """Give the segment in use blocks for claims that reach to `end`, unless it has them. If
        this raises, the tail stays where it is.
        """
        with self._directory.translate_errors("grow the segment in use"), self._place_turn.taken():
            start = self._core.allocated(number)
            stop = blocks.blocks_for(self._core.segment_size, end)
            if start < stop:
                with self._admitted(stop - start):
                    blocks.make_solid(self._directory, number, stop, start=start)
                failpoint("segment grown")
                self._core.raise_allocated(number, stop)

    def give_back_drained(self) -> bool:
        """Return the buffers whose segments are committed whole; return whether there were any."""
        return self._buffers is not None and self._buffers.give_back_drained()

    def report(self) -> None:
        """Log what the last calls met. Call this while no lock is held: a log handler may append,
        or wait for a thread that appends.
        """
        self.disk.report()
        self._sealer.report()
        if self._buffers is not None:
            self._buffers.report()

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        seen = 0
        while not self._core.stopping:
            seen = wait_event(self._core, seen, self._round())
        self._core.poll_rolls(False)
        self._report_rolls()

    def _round(self) -> float:
        """Do the work that is due; return the seconds until the next round without an event."""
        try:
            with self._directory.translate_errors("preallocate segments"):
                return self._work()
        except LogFailedError:
            pass  # the log itself reports that, once
        except DiskFullError:
            self._retry_at = time.monotonic() + _RETRY_S  # the monitor has logged it
        except CommitLogError as error:
            self._retry_at = time.monotonic() + _RETRY_S
            _logger.warning(
                "preallocation failed; the next append that needs the space raises the error if "
                "it persists: %s",
                error,
            )
        finally:
            self.report()
        return _ROUND_S

    def _work(self) -> float:
        rest_s = _ROUND_S
        tail = self._core.tail
        assert tail is not None
        number, offset = tail
        self._end_cycle()
        try:
            if time.monotonic() >= self._retry_at and not self._core.failed:
                self._grow_ahead(number, offset)
                self._allocate_ahead(number)
                self._make_ready(number, offset)
        finally:
            # Return the buffers only after the next segment is ready: returning zeroes them, which
            # takes time, and the appender may be near the segment's end.
            if self.give_back_drained():
                rest_s = 0.0  # a returned buffer may now serve the next segment: do not sleep
        if self._buffers is not None:
            self._buffers.settle(number)
        self._report_rolls()
        if self._pretouches:
            rest_s = (
                0.0 if self._pretoucher.step(self.allocated_position) else self._pretoucher.rest_s
            )
            self._core.poll_rolls(self._pretoucher.sees_rolls)
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

    def _make_ready(self, number: int, offset: int) -> None:
        """Prepare what the kernel needs to roll without Python: the next segments mapped, their
        first pages pre-faulted, and in a pooled log a buffer, from the middle of the segment on. A
        log with cycles rolls step by step.
        """
        if self._core.cycle_end_ns is not None:
            return
        for ahead in range(number + 1, self._synced_below):
            if not self._fault_first(ahead):
                return
            if self._buffers is None:
                self._core.ready_below = ahead + 1
        if self._buffers is None or offset < self._core.segment_size // 2:
            return
        if self._ahead.value and number + 1 < self._synced_below:
            self._buffers.attach_ahead(number + 1)

    def _fault_first(self, number: int) -> bool:
        """Map a segment and pre-fault its first pages; False if it is gone."""
        if number < self._faulted_below:
            return True
        with self._queue.held(number, "prefault") as segment:
            if segment is None:
                return False
            segment.prefault(0, _FIRST_BYTES if self._pretouches else HEADER_SIZE)
        self._faulted_below = number + 1
        return True

    def _report_rolls(self) -> None:
        rolls = self._core.writer_counters()["rolls"]
        tail = self._core.tail
        if rolls > self._rolls and tail is not None:
            self._rolls = rolls
            position = tail[0] * self._core.segment_size
            _logger.debug("%s: rolled to the segment at position %d", self._core.path, position)

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
        self._ahead.tail_in(number, time.monotonic())
        for ahead in range(1, self._ahead.value + 1):
            # Never create a segment after a gap: the handle that creates the missing one may be
            # killed.
            if not self._place(number + ahead, needed=needed):
                return

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
        """Allocate and prefault the next segments; return the position up to which that is done."""
        tail = self._core.tail
        assert tail is not None
        with self._directory.translate_errors("prepare the next segments"):
            self.grow(tail[0], self._core.segment_size)
            self._allocate_ahead(tail[0], needed=True)
            while self._pretoucher.step(self.allocated_position):
                pass
        return self._pretoucher.touched_position

    def sealed_below(self) -> int:
        """Seal the committed segments; return the number below which all are sealed.

        If this thread was interrupted while it sealed, or another one seals for too long, they are
        left to it.
        """
        with self._sealing.entered(_SEAL_WAIT_S) as entry:
            if entry is Entry.ENTERED:
                # The sealer reads the file, which holds a pooled log's records once they are
                # committed.
                self._sealer.seal_below(self._core.committed_position // self._core.segment_size)
        return max(0, self._sealer.reached)

    # --- the end ----------------------------------------------------------------------------------

    def give_back_all(self) -> None:
        """Refuse further rolls, and return every buffer: see `SegmentBuffers`."""
        self._closed = True
        self._core.ready_below = 0
        if self._buffers is not None:
            self._buffers.give_back_all()
