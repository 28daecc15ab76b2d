"""Turn: coroutines of one event loop that are held append in the order of their calls."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from types import TracebackType
from typing import Self, TypeAlias


class _Queue:
    """The coroutines of one loop that wait for their turns, and the one that has it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # whoever asks first gets it first
        self.turns = 0


# The queues of all loops, by the loop's identity; empty where nobody is held. A queue belongs to
# the coroutines in it alone, and they belong to their loop: one that is closed meanwhile takes all
# of it along.
Turns: TypeAlias = dict[int, weakref.ref[_Queue]]


class Turn:
    """One coroutine's place among those of its loop. A context manager; at its end the next one's
    turn comes.

    Parameters
    ----------
    turns : dict
        The log's.

    Attributes
    ----------
    waits : bool
        Whether somebody else has the turn at first.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._loop = asyncio.get_running_loop()  # kept, so that no other loop gets its identity
        known = turns.get(id(self._loop))
        queue = None if known is None else known()
        if queue is None:
            queue = _Queue()
            turns[id(self._loop)] = weakref.ref(queue)
        self._queue = queue
        self._came = False
        self.waits = queue.turns > 0

    async def comes(self) -> None:
        """Wait for it."""
        await self._queue.lock.acquire()
        self._came = True

    def __enter__(self) -> Self:
        self._queue.turns += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._came:
            with contextlib.suppress(RuntimeError):  # in a loop that was closed nobody can be told
                self._queue.lock.release()
        self._queue.turns -= 1
        if not self._queue.turns:
            del self._turns[id(self._loop)]
