"""Pretoucher: brings pages into memory ahead of the tail, as far ahead as the appends need."""

from __future__ import annotations

import contextlib
import os
import time

from commitlog._kernel.engine import Core
from commitlog._kernel.segments import Segment, start_writeback
from commitlog.base.turn import Turn
from commitlog.options import Options
from commitlog.segment.mapped_file_queue import MappedFileQueue

# Pre-fault distance: this many seconds of appends at the present rate, within these bounds. An idle
# log keeps the lower bound ready for a burst.
AHEAD_S = 0.5
LEAST_BYTES, MOST_BYTES = 16 << 20, 256 << 20
SYNC_BYTES = 1 << 20
_NEXT_BYTES = 1 << 20  # of the next segment, for an early roll
_HALF_LIFE_S = 5.0  # half-life of the rate measured in a burst
_MEASURED_S = 0.01  # a shorter time is too short to measure a rate
# The smallest step, and the fraction (1/8) of the distance that a step covers at least. Steps must
# not be too small: after each one the thread waits for the interpreter's lock, 5 ms beside a busy
# appender, and the appender would overtake it.
_STEP_BYTES, _STEP_PART = 4 << 20, 8
_REST_LEAST_S, _REST_MOST_S = 0.01, 0.1


class Pretoucher:
    """Tracks the append rate and the pages already prefaulted. Any thread may run the next step.

    The rate is the highest recent one: it is measured from step to step, and halves every five
    seconds. Without a fixed distance, the pages for half a second of appends are present.
    """

    def __init__(self, core: Core, queue: MappedFileQueue, options: Options) -> None:
        self._core = core
        self._queue = queue
        self._options = options
        self._turn = Turn()
        self.touched_position = 0  # pages below it are pre-faulted, or the tail has passed them
        self._next_number = 0  # the segment whose first pages are pre-faulted
        self._rate = 0.0
        self._seen = (time.monotonic(), core.tail_position)

    @property
    def distance(self) -> int:
        """Bytes ahead of the tail, now."""
        fixed = self._options.tuning.prefault_distance
        distance = (
            fixed
            if fixed is not None
            else int(min(max(self._rate * AHEAD_S, LEAST_BYTES), MOST_BYTES))
        )
        # Appends that wait for the disk are slow, and each flush would also write the dirty pages
        # ahead of them.
        return min(distance, SYNC_BYTES) if self._options.flush == "sync" else distance

    def measure(self) -> None:
        """Measure how far the tail has moved since the last call."""
        now_s, position = time.monotonic(), self._core.tail_position
        before_s, before = self._seen
        passed_s = now_s - before_s
        if passed_s >= _MEASURED_S:
            self._seen = (now_s, position)
            self._rate = max(
                (position - before) / passed_s, self._rate * 0.5 ** (passed_s / _HALF_LIFE_S)
            )

    def step(self, allocated: int) -> bool:
        """Pre-fault the next pages, a few MiB at most, none from the position `allocated` on.
        Return False if all that are wanted are present.
        """
        with self._turn.taken():
            self.measure()
            return self._step_ahead(allocated) or self._step_next(allocated)

    def _step_ahead(self, allocated: int) -> bool:
        position, distance = self._core.tail_position, self.distance
        size = self._core.segment_size
        wanted = min(position + distance, allocated)
        start = max(self.touched_position, position)  # pages below the tail are already present
        if start >= wanted:
            return False
        step = max(_STEP_BYTES, distance // _STEP_PART)
        self._touch(start, min(wanted, start + step, start - start % size + size))
        return True

    def _step_next(self, allocated: int) -> bool:
        """An early roll leaves the tail's segment before its end."""
        size = self._core.segment_size
        number = self._core.tail_position // size + 1
        start = number * size
        if number <= self._next_number or start >= allocated or self.touched_position > start:
            return False
        touched = self.touched_position
        self._touch(start, start + min(_NEXT_BYTES, size, self.distance))
        self.touched_position = touched
        self._next_number = number
        return True

    def _touch(self, start: int, stop: int) -> None:
        with self._queue.held(start // self._core.segment_size, "prefault") as segment:
            if segment is not None:
                segment.prefault(start - segment.base, stop - segment.base)
                if self._options.flush == "sync":
                    self._write_zeros(segment, start - segment.base, stop - segment.base)
        self.touched_position = stop

    def _write_zeros(self, segment: Segment, start: int, stop: int) -> None:
        """Write the pages before an appender waits for them: the first write of a page also makes
        the file system record it.
        """
        with (
            contextlib.suppress(OSError),  # deleted meanwhile, or no descriptor is free
            self._queue.directory.opened_file(segment.number, os.O_RDWR) as fd,
        ):
            start_writeback(fd, start, stop)

    @property
    def rest_s(self) -> float:
        """Return how long, at the present rate, until half of the pages ahead are used."""
        ahead = self.touched_position - self._core.tail_position
        if self._rate <= 0 or ahead <= 0:
            return _REST_MOST_S
        return min(max(ahead / 2 / self._rate, _REST_LEAST_S), _REST_MOST_S)

    @property
    def sees_rolls(self) -> bool:
        """Whether each pause ends in the first third of a segment, so that no roll needs to wake
        the thread.
        """
        return self.rest_s * self._rate <= self._core.segment_size / 3
