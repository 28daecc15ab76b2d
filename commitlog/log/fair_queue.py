"""QueueEntry: coroutines of one event loop that wait append in the order of their calls."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Self, TypeAlias


class _Queue:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # first come, first served
        self.entries = 0


# The queues of all loops, by the loop's identity; empty if no coroutine waits. Only the coroutines
# of a loop refer to its queue, so the queue of a closed loop is collected.
FairQueues: TypeAlias = dict[int, weakref.ref[_Queue]]


class QueueEntry:
    """Queue one coroutine among those of its loop; leaving the context wakes the next one.

    `must_wait`: the queue was not empty.
    """

    def __init__(self, queues: FairQueues) -> None:
        self._queues = queues
        self._loop = asyncio.get_running_loop()  # kept, so that its identity is not reused
        known = queues.get(id(self._loop))
        queue = None if known is None else known()
        if queue is None:
            queue = _Queue()
            queues[id(self._loop)] = weakref.ref(queue)
        self._queue = queue
        self._came = False
        self.must_wait = queue.entries > 0

    async def wait(self) -> None:
        await self._queue.lock.acquire()
        self._came = True

    def __enter__(self) -> Self:
        self._queue.entries += 1
        return self

    def __exit__(self, *_: object) -> None:
        if self._came:
            with contextlib.suppress(RuntimeError):  # a closed loop cannot wake the next one
                self._queue.lock.release()
        self._queue.entries -= 1
        if not self._queue.entries:
            del self._queues[id(self._loop)]
