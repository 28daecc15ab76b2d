"""AcknowledgeService: one thread that acknowledges durable records to waiting coroutines."""

from __future__ import annotations

import asyncio
import copy
import heapq
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from commitlog._kernel.engine import Committer
from commitlog.base.loops import resolve
from commitlog.base.service import Service
from commitlog.errors import ClosedError, CommitLogError, SyncTimeoutError

_SLICE_S = 0.05  # how long one flush may delay the check of deadlines and of `stop`


class _Waiting(NamedTuple):
    """A coroutine that waits until the record at `position` is durable."""

    position: int
    deadline_s: float
    future: asyncio.Future[None]


class AcknowledgeService(Service):
    """Wait for durability in one thread, for the coroutines of any number of event loops.

    The thread takes part in the group commit as one waiting appender. A flush serves every record
    that was published before it began, so thousands of coroutines cost one flush, and one call into
    each of their loops. Watermarks lie between frames: a record is durable once `flushed` is past
    its first byte.
    """

    def __init__(self, core: Committer, sync_timeout_s: float) -> None:
        super().__init__(f"commitlog acknowledge {core.path}")
        self._core = core
        self._sync_timeout_s = sync_timeout_s
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []  # a heap: the lowest position first
        self._ended = False

    async def durable(self, position: int) -> None:
        """Wait until the record at a position is durable; after an error it stays in the log."""
        began_ns = time.monotonic_ns()
        try:
            await self._until_durable(position)
        finally:
            self._core.note_latency("sync", time.monotonic_ns() - began_ns)

    async def _until_durable(self, position: int) -> None:
        if self._durable_position() > position:
            return
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._ended:
                raise self._closed(position)
            heapq.heappush(
                self._waiting, _Waiting(position, time.monotonic() + self._limit_s(), future)
            )
            self._changed.notify()
        await future

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while self._wait_for_work():
                self._round()
        finally:
            with self._changed:
                self._ended = True
            self._acknowledge()
            self._fail_all(self._closed)

    def stop(self) -> None:
        """End the thread. A coroutine that still waits gets `ClosedError`."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            return not self._ended

    def _round(self) -> None:
        """Flush up to the lowest awaited record, which covers all published records."""
        with self._changed:
            lowest = self._waiting[0]
        failure: CommitLogError | None = None
        try:
            self._core.flush_to(lowest.position + 1, self._slice_s(lowest))
            if self._core.copies is not None:
                self._wait_for_copies(lowest)
        except SyncTimeoutError:
            now_s = time.monotonic()
            if now_s >= lowest.deadline_s:
                self._acknowledge()
                self._fail_all(self._late, lambda waiting: waiting.deadline_s <= now_s)
        except CommitLogError as error:
            failure = error
        self._acknowledge()
        if failure is not None:
            cause = failure
            self._fail_all(lambda position: _twin(cause, position))

    def _slice_s(self, lowest: _Waiting) -> float:
        return max(0.0, min(_SLICE_S, lowest.deadline_s - time.monotonic()))

    def _wait_for_copies(self, lowest: _Waiting) -> None:
        copies, end = self._core.copies, lowest.position + 1
        done = copies.wait(end, self._slice_s(lowest))
        if not done and time.monotonic() >= lowest.deadline_s:
            copies.expire(end)

    def _durable_position(self) -> int:
        copies, flushed = self._core.copies, self._core.flushed_position
        return flushed if copies is None else min(flushed, copies.position)

    def _limit_s(self) -> float:
        copies = self._core.copies
        return self._sync_timeout_s if copies is None else copies.limit_s(self._sync_timeout_s)

    def _late(self, position: int) -> SyncTimeoutError:
        return SyncTimeoutError(
            f"the record was not durable within {self._limit_s():g} s: it stays in the log "
            "and may still become durable; do not append it again",
            path=self._core.path,
            position=position,
        )

    def _closed(self, position: int) -> ClosedError:
        return ClosedError(
            "the log was closed before the record was known to be durable: it stays in the log",
            path=self._core.path,
            position=position,
        )

    def _acknowledge(self) -> None:
        durable = self._durable_position()
        served = []
        with self._changed:
            while self._waiting and self._waiting[0].position < durable:
                served.append(heapq.heappop(self._waiting))
        resolve((waiting.future, None) for waiting in served)

    def _fail_all(
        self,
        error_of: Callable[[int], CommitLogError],
        concerned: Callable[[_Waiting], bool] = lambda waiting: True,
    ) -> None:
        with self._changed:
            taken = [waiting for waiting in self._waiting if concerned(waiting)]
            self._waiting = [waiting for waiting in self._waiting if not concerned(waiting)]
            heapq.heapify(self._waiting)
        resolve((waiting.future, error_of(waiting.position)) for waiting in taken)


def _twin(error: CommitLogError, position: int) -> CommitLogError:
    """Copy an error for one coroutine, because each raise extends the traceback."""
    twin = copy.copy(error)
    twin.position = position
    return twin
