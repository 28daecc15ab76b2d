"""Watcher: wakes the coroutines that wait for records of a log, however many, with one thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NamedTuple

from commitlog._kernel.core import Core
from commitlog._kernel.reader import Reader
from commitlog.service import Service

_SLEEP_S = 0.05  # in the kernel, which an append ends
_NAP_LEAST_S, _NAP_MOST_S = 0.0005, 0.01  # where no append can end it
_JOIN_S = 10.0
_start_lock = threading.Lock()


class _Waiting(NamedTuple):
    reader: Reader
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Watcher(Service):
    """One thread that waits for appends to a log on behalf of coroutines, of any number of event loops.

    It sleeps as a reader with ``idle="block"`` does. Where no append wakes it (what is flushed, this process's own pool buffers, cursors
    that cannot be written) it looks now and then, at intervals that grow to 10 ms.
    """

    def __init__(self, core: Core) -> None:
        super().__init__(f"commitlog watch {core.path}")
        self._core = core
        self._changed = threading.Condition()
        self._waiting: dict[asyncio.Future[None], _Waiting] = {}
        self._ended = False

    async def news(self, reader: Reader, timeout_s: float | None) -> None:
        """Wait until a look at what the reader stands before is worth while, or so many seconds."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._changed:
            if self._ended:
                return
            self._waiting[future] = _Waiting(reader, loop, future)
            self._changed.notify()
        expiry = None if timeout_s is None else loop.call_later(timeout_s, _resolve, [future])
        try:
            # In the thread's list before this look: between the two of them no record is missed.
            self._core.announce_sleeper()
            if not reader.has_news:
                await future
        finally:
            if expiry is not None:
                expiry.cancel()
            with self._changed:
                self._waiting.pop(future, None)

    # --- the thread ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            nap_s = _NAP_LEAST_S
            while self._wait_for_work():
                nap_s = _NAP_LEAST_S if self._round(nap_s) else min(2 * nap_s, _NAP_MOST_S)
        finally:
            self._end()

    def _round(self, nap_s: float) -> bool:
        """Wake those for whom there is something; where it is nobody, sleep. Whether it was somebody."""
        seen = self._core.announce_sleeper()
        with self._changed:
            waiting = list(self._waiting.values())
        with_news = [one for one in waiting if one.reader.has_news]
        if with_news:
            self._tell(with_news)
        else:
            self._core.wait_append(seen, _SLEEP_S if all(one.reader.is_woken for one in waiting) else nap_s)
        return bool(with_news)

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            return not self._ended

    def stop(self) -> None:
        """End the thread. Whoever waits looks once more, and finds the log closed."""
        self._end()
        self._core.wake_sleepers()
        self.join(_JOIN_S)

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
            waiting = list(self._waiting.values())
        self._tell(waiting)

    def _tell(self, waiting: list[_Waiting]) -> None:
        """One call into each loop, whatever the number of its coroutines."""
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        with self._changed:
            for one in waiting:
                self._waiting.pop(one.future, None)
        for one in waiting:
            by_loop.setdefault(one.loop, []).append(one.future)
        for loop, futures in by_loop.items():
            # A loop that was closed takes nothing any more, and nobody there waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def watcher_of(core: Core) -> Watcher:
    """The log's watcher, started by the first who asks."""
    watcher: Watcher | None = core.watcher
    if watcher is None:
        with _start_lock:
            watcher = core.watcher
            if watcher is None:
                watcher = core.watcher = Watcher(core)
                watcher.start()
    return watcher
