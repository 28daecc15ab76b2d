"""CoroutineHandle: appending from coroutines, which wait for the disk and for required tailers without a thread each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from commitlog._kernel.core import GATE_CLOSED
from commitlog._kernel.record_list import RecordList
from commitlog.errors import ClosedError
from commitlog.handle import LogHandle
from commitlog.service import start_lock
from commitlog.tail.lag import Hold

if TYPE_CHECKING:
    from commitlog._kernel.writer import ReadableBuffer
_NOWHERE = 1 << 63


class CoroutineHandle(LogHandle):
    """What `CommitLog` offers to asyncio."""

    async def append_async(
        self,
        value: ReadableBuffer,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> int:
        """Append one record, and wait for the disk and for required tailers without holding the event loop up.

        The record is appended at once, before anything else runs in this loop, unless a required tailer is too far behind and
        ``on_lag="wait"`` says to wait for it. Either way the records of one loop's coroutines come in the order of their calls. What is
        waited for after that is the disk, under ``flush="sync"``; all coroutines that wait for it share flushes, and one thread. Where
        `append` waits for something else, for a segment to be made or for a free pool buffer, so does this, and its loop with it.

        Parameters
        ----------
        value, key, type, timestamp_ns
            As for `append`.
        sync : bool, optional
            As for `append`: by default the log's ``flush=`` decides. Without it, the call returns when the record is appended, and a power
            cut can take the record back.

        Returns
        -------
        int
            The record's position; -1 where it was dropped, as for `append`.

        Raises
        ------
        asyncio.CancelledError
            Cancelling ends the wait and not the append: the record stays in the log, and becomes durable as if it had been waited for.
            Only one that is still held by a required tailer was not appended, and never will be.
        TailerLagError
            A required tailer is too far behind, also after ``lag_timeout``. Nothing was appended.
        SyncTimeoutError, ClosedError, LogFailedError
            With a ``position``: the record stays in the log and may be durable.
        RecordTypeError, RecordTooLargeError, DiskFullError, PoolExhaustedError, ReadOnlyError, ForkedError, ClaimError
            Nothing was appended.
        """
        durable = self._is_awaited(sync)
        position = None if self._turns else self.append_unless_held(value, key, type, timestamp_ns)
        if position is None:
            records = RecordList(self, [value], [key], [type], timestamp_ns)
            await self._append_in_turn(records)
            position = int(records.positions[0])
        if durable:
            await self._until_durable(position)
        return position

    async def append_many_async(
        self,
        values: Iterable[ReadableBuffer],
        *,
        keys: Iterable[ReadableBuffer | None] | None = None,
        types: Iterable[int] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> npt.NDArray[np.int64]:
        """Append a list of records as `append_many` does, and wait as `append_async` does, for the disk once for all.

        A list that is cancelled, or fails, while a required tailer holds the rest of it, is appended as far as it had come.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one a record; -1 where it was dropped, as for `append_many`.
        """
        durable = self._is_awaited(sync)
        records = RecordList(self, values, keys, types, timestamp_ns)
        if self._turns or not self.append_list(records):
            await self._append_in_turn(records)
        if durable and records.count:
            await self._until_durable(int(records.positions.max()))  # behind the last one that was not dropped there may be -1
        return records.positions

    async def _append_in_turn(self, records: RecordList) -> None:
        """Append what is left of a list, after what the coroutines of this loop have left that are held already."""
        import asyncio  # by those who use it

        from commitlog.turns import Turn

        assert self._lag_guard is not None
        with Hold(self._lag_guard) as hold, Turn(self._turns) as turn:
            hold.waited = turn.waits
            await turn.comes()
            while not (hold.dropped or self.append_list(records)):
                for nap_s in hold.naps(records.count - records.done):
                    await asyncio.sleep(nap_s)

    def _is_awaited(self, sync: bool | None) -> bool:
        durable = self.options.flush == "sync" if sync is None else bool(sync)
        if durable:
            self.check_claims(_NOWHERE)
        return durable

    async def _until_durable(self, position: int) -> None:
        service = self._acknowledge_service
        if service is None:
            from commitlog.flush.acknowledge_service import AcknowledgeService  # asyncio is imported by those who use it

            with start_lock:
                if self.gate == GATE_CLOSED:
                    raise ClosedError("the log was closed meanwhile; the record stays in it", path=self.path, position=position)
                if self._acknowledge_service is None:
                    self._acknowledge_service = AcknowledgeService(self, self.options.sync_timeout)
                    self._acknowledge_service.start()
                service = self._acknowledge_service
        await service.durable(position)
