"""SegmentBuffers: the pool buffers that are attached to a log's segments."""

from __future__ import annotations

import time
import weakref
from contextlib import ExitStack
from typing import NamedTuple

from commitlog._kernel.engine import Writer
from commitlog.allocation.buffer_lease import BufferLeases
from commitlog.base.failpoint import failpoint
from commitlog.base.section import Entry, Section
from commitlog.base.turn import PATIENCE_S, SHORT_S, Turn
from commitlog.errors import ClosedError, PositionError
from commitlog.pool.buffer import PoolBuffer
from commitlog.segment.mapped_file_queue import MappedFile, MappedFileQueue


class _BufferLease:
    """Lives as long as the log, or a claim's view that outlives the log, needs a buffer."""


class _Attached(NamedTuple):
    """A segment with its buffer; while it is held by the token, it is not deleted."""

    file: MappedFile
    buffer: PoolBuffer
    lease: _BufferLease
    token: int


class SegmentBuffers:
    """Attaches a buffer to each segment that the log rolls into, and returns those that are
    committed.

    At most one buffer is attached ahead of need. Another borrower that finds the pool empty gets it
    back by `give_back_ahead`. The kernel's `ready_below` says which segment has a buffer ahead of
    need. The kernel refuses to attach or detach a buffer once the log has entered the segment, so
    the two turns below only order the work.
    """

    def __init__(self, core: Writer, queue: MappedFileQueue, lender: BufferLeases) -> None:
        self._core = core
        self._queue = queue
        self._lender = lender
        self._attaching = Section()
        self._is_short = False  # the thread that attaches waits for the pool
        self._turn = Turn(SHORT_S)
        # Taken while drained buffers are returned to the pool; `_turn` is taken inside it.
        self._returning = Turn()
        self._attached: dict[int, _Attached] = {}
        self._ahead: int | None = None  # the segment whose buffer was lent ahead of need
        self._needed: int | None = None  # the segment that a thread is about to roll into
        self._closed = False
        lender.reclaim_by(self.give_back_ahead)

    def attach(self, number: int, *, opening: bool = False) -> None:
        """Attach a buffer to a segment that the log is about to roll into, or in which it is
        `opening`, unless it has one already or the pool's policy gives none.

        If this call interrupts another one of the same thread, or another thread was interrupted in
        such a call, the segment gets none: its claims go to the mapping, as with
        ``on_exhausted="mapped"``.
        """
        deadline_s = time.monotonic() + self._lender.pool.wait_timeout_s
        while True:
            with self._attaching.entered(PATIENCE_S) as entry:
                if entry is Entry.ENTERED:
                    self._attach(number, opening)
            if entry is not Entry.LATE or not self._is_short:
                return
            if time.monotonic() >= deadline_s:
                raise self._lender.pool.exhausted("other threads of this log wait for buffers, too")

    def _attach(self, number: int, opening: bool) -> None:
        with self._turn.taken():
            self._needed = number
        try:
            with ExitStack() as undo:
                held = self._hold(number, undo)
                if held is None:
                    return
                buffer = self._borrow()
                if buffer is None:
                    return
                undo.callback(self._lender.give_back, buffer, written=False)
                with self._turn.taken():
                    self._bind(number, *held, buffer, undo, opening=opening)
        except BaseException:
            self._needed = None  # the log does not roll
            raise

    def _borrow(self) -> PoolBuffer | None:
        # Returning a drained buffer zeroes it: the service does that as long as another buffer is
        # free.
        pool, owner = self._lender.pool, self._lender.owner
        buffer = pool.try_borrow(owner)
        if buffer is None:
            # Every buffer is lent. A commit may drain one of this log's buffers. The service may be
            # about to return one, too: this waits for it.
            self._core.commit(self._core.tail_position)
            self.give_back_drained()
            self._is_short = True
            try:
                buffer = pool.borrow(owner)
            finally:
                self._is_short = False
        return buffer

    def attach_ahead(self, number: int) -> None:
        """Attach a free buffer to the next segment: the kernel then rolls into it alone."""
        if number in self._attached:
            return
        pool, owner = self._lender.pool, self._lender.owner
        with ExitStack() as undo:
            held = self._hold(number, undo)
            if held is None:
                return
            # Borrow in the turn: a roll that needs the last buffer, and `give_back_ahead`, find it
            # either free or attached.
            with self._turn.taken():
                # If the log has entered the segment, claims may be in the mapping.
                if self._entered(number):
                    return
                buffer = pool.try_borrow(owner, ahead=True)
                if buffer is None:
                    return
                undo.callback(self._lender.give_back, buffer, written=False)
                if self._bind(number, *held, buffer, undo):
                    self._ahead = number
                    self._core.ready_below = number + 1

    def _hold(self, number: int, undo: ExitStack) -> tuple[MappedFile, int] | None:
        """Keep a segment from deletion until `undo`; None if it has a buffer already."""
        held = self._queue.hold(number, "its pool buffer", briefly=True)
        if held is None:
            raise PositionError(
                "the segment is being deleted", path=self._queue.directory.segment_path(number)
            )
        file, token = held
        undo.callback(file.release, token)
        return None if number in self._attached or file.segment.buffered else held

    def _bind(
        self,
        number: int,
        file: MappedFile,
        token: int,
        buffer: PoolBuffer,
        undo: ExitStack,
        *,
        opening: bool = False,
    ) -> bool:
        """Attach a buffer; False if the segment has one by now, or the log has entered it."""
        if number in self._attached:
            return False
        lease = _BufferLease()
        self._lender.bind(buffer, file)
        # From here on what is listed has to be returned: a close that interrupts this does so.
        attached = self._attached[number] = _Attached(file, buffer, lease, token)
        undo.pop_all()
        done = False
        try:
            if self._closed:
                raise ClosedError("the log is closed: open it again", path=self._core.path)
            done = self._core.attach(file.segment, buffer.memory, lease, opening=opening)
            if done and self._attached.get(number) is not attached:
                self._core.detach(file.segment)
                done = False
        finally:
            if not done and self._attached.pop(number, None) is not None:
                file.release(token)
                self._lender.give_back(buffer, written=False)
        failpoint("buffer attached")
        return done

    def _entered(self, number: int) -> bool:
        """Return whether the log has rolled into the segment, or a thread is about to."""
        tail = self._core.tail
        return number == self._needed or tail is None or tail[0] >= number

    def settle(self, number: int) -> None:
        """Record that the tail is in segment `number`: its buffer is in use."""
        with self._turn.taken():
            if self._ahead is None or self._ahead > number:
                return
            attached, self._ahead = self._attached.get(self._ahead), None
        if attached is not None:
            self._lender.pool.settle(attached.buffer)

    def report(self) -> None:
        """Log what the last calls met. Call this while no lock is held."""
        self._lender.report()

    def give_back_drained(self) -> bool:
        """Return the buffers whose segments are committed whole; whether there were any."""
        with self._returning.taken():
            with self._turn.taken():
                taken = [
                    self._take(number)
                    for number, attached in self._attached.copy().items()
                    if attached.file.segment.drained
                ]
            buffers = [attached.buffer for attached in taken if attached is not None]
            for buffer in buffers:
                self._lender.give_back(buffer)
        return bool(buffers)

    def _take(self, number: int) -> _Attached | None:
        """Detach a segment's buffer; None if another thread has done so."""
        attached = self._attached.pop(number, None)
        if attached is not None:
            self._core.detach(attached.file.segment)
            attached.file.release(attached.token)
        return attached

    def give_back_ahead(self) -> bool:
        """Return the buffer that is attached ahead of need to the pool; False if there is none."""
        with self._turn.taken():
            ahead = self._ahead
            if ahead is None:
                return False
            # Do this first: from here on the kernel does not roll into the segment.
            self._core.ready_below = 0
            attached = self._attached.get(ahead)
            if attached is None or self._entered(ahead):
                return False
            if not self._core.detach_unused(attached.file.segment):
                return False
            self._ahead = None
            if self._attached.pop(ahead, None) is None:
                return False  # a close takes it back
            attached.file.release(attached.token)
        self._lender.give_back(attached.buffer, written=False)
        return True

    def give_back_all(self) -> None:
        """Return every buffer, committed whole or not: after the log is drained, or has failed.

        A roll of another thread may still wait for a buffer. It raises `ClosedError`, and returns
        the buffer that it gets.

        A claim that is still open was rolled back, but may have a view of its buffer and write to
        it. That buffer is returned once the view is released.
        """
        self._closed = True
        self._core.ready_below = 0
        self._ahead = None
        with self._turn.taken():
            found = [self._take(number) for number in self._attached.copy()]
            taken = [attached for attached in found if attached is not None]
            del found
        while taken:
            _, buffer, lease, _ = taken.pop()
            weakref.finalize(lease, self._lender.give_back, buffer).atexit = False
            del lease  # the last reference, unless a view remains
