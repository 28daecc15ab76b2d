"""Replay: yield records at the pace of their timestamps, or a multiple of it."""

from __future__ import annotations

import contextlib
import time
from typing import Self

from commitlog._kernel.engine import REFUSED_CLOSED
from commitlog._kernel.readers import Cursor, FollowIterator, Record
from commitlog.base.pace import Pace
from commitlog.errors import CommitLogError


class Replay:
    """Iterate over records, each when it is due; `Tailer.follow` returns it if it has a speed.

    If a pause is interrupted, the cursor moves back before the record that was not yielded.
    """

    def __init__(self, cursor: Cursor, records: FollowIterator, pace: Pace) -> None:
        self._cursor = cursor
        self._records = records
        self._pace = pace

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        record = next(self._records)
        try:
            for nap_s in self._pace.naps(record.timestamp_ns):
                if self._cursor.core.refusal == REFUSED_CLOSED:
                    raise StopIteration
                time.sleep(nap_s)
        except BaseException:
            self._go_back(record)
            raise
        return record

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        import asyncio  # only coroutines need it

        record = await anext(self._records)
        try:
            for nap_s in self._pace.naps(record.timestamp_ns):
                if self._cursor.core.refusal == REFUSED_CLOSED:
                    raise StopAsyncIteration
                await asyncio.sleep(nap_s)
        except BaseException:
            self._go_back(record)
            raise
        return record

    def _go_back(self, record: Record) -> None:
        with contextlib.suppress(CommitLogError):  # the log is closed
            self._cursor.move_to(record.position)
