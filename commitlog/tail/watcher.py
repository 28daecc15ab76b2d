"""Watcher: the thread that wakes coroutines when records arrive. AsyncRecords: its iterator."""

from __future__ import annotations

import asyncio
import threading

from commitlog._kernel.engine import (
    REFUSED_CLOSED,
    Core,
    announce_sleeper,
    wait_append,
    wake_sleepers,
)
from commitlog._kernel.readers import Cursor, FollowIterator, Record
from commitlog.base.loops import resolve, resolve_here
from commitlog.base.service import Service, start_lock

_SLEEP_S = 0.05  # in the kernel; an append ends it
_NAP_LEAST_S, _NAP_MOST_S = 0.0005, 0.01  # if no append can end it
_RUN_MOST = 64  # records in a row without a wait, before the event loop runs other coroutines
_POLL_LEAST_S, _POLL_MOST_S = 0.001, 0.01
_JOIN_S = 10.0


class Watcher(Service):
    """Wait for appends to a log in one thread, for the coroutines of any number of event loops.

    The thread sleeps as a reader with ``idle="block"`` does. If appends cannot wake it (flushed
    visibility, this process's own pool buffers, cursors that this user may not write), it polls at
    intervals that grow to 10 ms.
    """

    def __init__(self, core: Core) -> None:
        super().__init__(f"commitlog watch {core.path}")
        self._core = core
        self._changed = threading.Condition()
        self._waiting: dict[asyncio.Future[None], Cursor] = {}
        self._ended = False

    async def news(self, cursor: Cursor, timeout_s: float | None) -> None:
        """Wait until the cursor may have a new record, at most so many seconds."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._changed:
            if self._ended:
                return
            self._waiting[future] = cursor
            self._changed.notify()
        expiry = (
            None
            if timeout_s is None
            else loop.call_later(timeout_s, resolve_here, [(future, None)])
        )
        try:
            # The future is in the thread's list before this check, so no record is missed.
            announce_sleeper(self._core)
            if not cursor.has_news:
                await future
        finally:
            if expiry is not None:
                expiry.cancel()
            with self._changed:
                self._waiting.pop(future, None)

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            nap_s = _NAP_LEAST_S
            while self._wait_for_work():
                nap_s = _NAP_LEAST_S if self._round(nap_s) else min(2 * nap_s, _NAP_MOST_S)
        finally:
            self._end()

    def _round(self, nap_s: float) -> bool:
        """Wake coroutines with new records, else sleep; return whether one was woken."""
        seen = announce_sleeper(self._core)
        with self._changed:
            waiting = list(self._waiting.items())
        with_news = [future for future, cursor in waiting if cursor.has_news]
        if with_news:
            self._tell(with_news)
        else:
            wait_append(
                self._core,
                seen,
                _SLEEP_S if all(cursor.is_woken for _, cursor in waiting) else nap_s,
            )
        return bool(with_news)

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            return not self._ended

    def stop(self) -> None:
        """End the thread; each waiting coroutine checks once more and finds the log closed."""
        self._end()
        wake_sleepers(self._core)
        self.join(_JOIN_S)

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
            waiting = list(self._waiting)
        self._tell(waiting)

    def _tell(self, futures: list[asyncio.Future[None]]) -> None:
        with self._changed:
            for future in futures:
                self._waiting.pop(future, None)
        resolve((future, None) for future in futures)


def watcher_of(core: Core) -> Watcher:
    """Return the log's watcher; the first call starts it."""
    watcher: Watcher | None = core.watcher
    if watcher is None:
        with start_lock:
            watcher = core.watcher
            if watcher is None:
                watcher = Watcher(core)
                if core.refusal != REFUSED_CLOSED:
                    watcher.start()
                core.watcher = watcher
        if core.refusal == REFUSED_CLOSED:  # a closed log no longer ends the thread
            watcher.stop()
    return watcher


class AsyncRecords:
    """Yield the records of `async for` over `Tailer.follow`; end if none arrives for `timeout_s`.

    The cursor moves only when a record is returned. If a coroutine is cancelled at an await, the
    cursor stays before the next record. `present` has the records that are visible already.
    """

    def __init__(self, cursor: Cursor, present: FollowIterator, timeout_s: float | None) -> None:
        self._cursor = cursor
        self._timeout_s = timeout_s
        self._present = present
        self._run = 0

    async def next(self) -> Record:
        """Return the next record; stop if none arrives in time, or the log is closed."""
        self._cursor.save_position()  # the caller is done with the last record
        self._run += 1
        if self._run > _RUN_MOST:
            self._run = 0
            await asyncio.sleep(0)
        record = next(self._present, None)
        return record if record is not None else await self._arriving()

    async def _arriving(self) -> Record:
        self._run = 0
        loop = asyncio.get_running_loop()
        deadline_s = None if self._timeout_s is None else loop.time() + self._timeout_s
        nap_s = _POLL_LEAST_S
        while True:
            left_s = None if deadline_s is None else deadline_s - loop.time()
            if (
                self._cursor.core.refusal == REFUSED_CLOSED
                or self._cursor.backward
                or (left_s is not None and left_s <= 0)
            ):
                raise StopAsyncIteration
            await watcher_of(self._cursor.core).news(self._cursor, left_s)
            record = next(self._present, None)
            if record is not None:
                return record
            # No record yet: there is an open claim, or the next segment is still being created.
            await asyncio.sleep(nap_s if left_s is None else min(nap_s, left_s))
            nap_s = min(2 * nap_s, _POLL_MOST_S)
