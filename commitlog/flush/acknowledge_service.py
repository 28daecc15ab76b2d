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

_SLICE_S = (
    0.05  # how long one flush may keep the thread from looking at deadlines and at its own end
)


class _Waiting(NamedTuple):
    """A coroutine that waits until the record at `position` is durable."""

    position: int
    deadline_s: float
    future: asyncio.Future[None]


class AcknowledgeService(Service):
    """One thread that waits for the disk on behalf of coroutines, of any number of event loops.

    It takes part in the group commit as one appender that waits would. A flush serves every record
    that was published before it began, so thousands of coroutines cost one flush, and one call into
    each of their loops. Watermarks lie between frames: a record is durable as soon as `flushed`
    is past its first byte.
    """

    def __init__(self, core: Committer, sync_timeout_s: float) -> None:
        super().__init__(f"commitlog acknowledge {core.path}")
        self._core = core
        self._sync_timeout_s = sync_timeout_s
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []  # a heap: the lowest position first
        self._ended = False

    async def durable(self, position: int) -> None:
        """Wait until the record at a position is durable.

        Raises
        ------
        SyncTimeoutError, LogFailedError, ClosedError
            It is not known to be. It stays in the log.
        """
        began_ns = time.monotonic_ns()
        try:
            await self._until_durable(position)
        finally:
            self._core.note_latency("sync", time.monotonic_ns() - began_ns)

    async def _until_durable(self, position: int) -> None:
        if self._core.flushed_position > position:
            return
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._ended:
                raise self._closed(position)
            heapq.heappush(
                self._waiting, _Waiting(position, time.monotonic() + self._sync_timeout_s, future)
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
            self._tell_durable()
            self._tell_all(self._closed)

    def stop(self) -> None:
        """Have the thread end. Whoever still waits then, though `close` has flushed, is told that
        the log is closed.
        """
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            return not self._ended

    def _round(self) -> None:
        """One flush for the lowest record that is waited for, and so for all that are there."""
        with self._changed:
            lowest = self._waiting[0]
        failure: CommitLogError | None = None
        try:
            self._core.flush_to(
                lowest.position + 1, max(0.0, min(_SLICE_S, lowest.deadline_s - time.monotonic()))
            )
        except SyncTimeoutError:
            now_s = time.monotonic()
            if now_s >= lowest.deadline_s:
                self._tell_durable()
                self._tell_all(self._late, lambda waiting: waiting.deadline_s <= now_s)
        except CommitLogError as error:
            failure = error
        self._tell_durable()
        if failure is not None:
            told = failure
            self._tell_all(lambda position: _twin(told, position))

    def _late(self, position: int) -> SyncTimeoutError:
        return SyncTimeoutError(
            f"the record was not durable within {self._sync_timeout_s:g} s: it stays in the log "
            "and may become so, do not append it again",
            path=self._core.path,
            position=position,
        )

    def _closed(self, position: int) -> ClosedError:
        return ClosedError(
            "the log was closed before the record was known to be durable: it stays in the log",
            path=self._core.path,
            position=position,
        )

    def _tell_durable(self) -> None:
        durable = self._core.flushed_position
        served = []
        with self._changed:
            while self._waiting and self._waiting[0].position < durable:
                served.append(heapq.heappop(self._waiting))
        resolve((waiting.future, None) for waiting in served)

    def _tell_all(
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
    """An error of each coroutine's own: a traceback grows with every one that raises it."""
    twin = copy.copy(error)
    twin.position = position
    return twin
