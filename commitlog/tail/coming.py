"""Coming: the next record for a coroutine, which waits while its loop goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from commitlog._kernel.engine import GATE_CLOSED
from commitlog._kernel.readers import Record
from commitlog.tail.watcher import watcher_of

if TYPE_CHECKING:
    from commitlog.tail.seek import Seeker

_RUN_MOST = 64  # records in a row that are there already, after which the loop gets a turn
_NAP_LEAST_S, _NAP_MOST_S = 0.001, 0.01


class Coming:
    """What `async for` over `Tailer.follow` asks.

    The tailer moves when a record is given and at no other time. So a coroutine that is cancelled at any of its awaits leaves it before the
    record that it would have got.
    """

    def __init__(self, tailer: Seeker, timeout_s: float | None) -> None:
        self._tailer = tailer
        self._timeout_s = timeout_s
        self._present = tailer.follow(timeout=0)
        self._run = 0

    async def next(self) -> Record:
        """The next record.

        Raises
        ------
        StopAsyncIteration
            None came in time, or the log is closed.
        """
        self._tailer.save_place()  # of a named tailer: whoever asks for the next record is done with the last one
        self._run += 1
        if self._run > _RUN_MOST:
            self._run = 0
            await asyncio.sleep(0)
        record = next(self._present, None)
        return record if record is not None else await self._next_to_come()

    async def _next_to_come(self) -> Record:
        self._run = 0
        loop = asyncio.get_running_loop()
        deadline_s = None if self._timeout_s is None else loop.time() + self._timeout_s
        nap_s = _NAP_LEAST_S
        while True:
            left_s = None if deadline_s is None else deadline_s - loop.time()
            if self._tailer.core.gate == GATE_CLOSED or self._tailer.backward or (left_s is not None and left_s <= 0):
                raise StopAsyncIteration
            await watcher_of(self._tailer.core).news(self._tailer, left_s)
            record = next(self._present, None)
            if record is not None:
                return record
            # News, and no record yet: behind a claim, or before a segment that is still being made. Only looks resolve that.
            await asyncio.sleep(nap_s if left_s is None else min(nap_s, left_s))
            nap_s = min(2 * nap_s, _NAP_MOST_S)
