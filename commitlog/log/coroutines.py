"""AsyncMethods: appends from coroutines, without a thread for each that waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import RecordList
from commitlog.errors import ClosedError
from commitlog.tail.backpressure import Hold

if TYPE_CHECKING:
    from commitlog._kernel.engine import ReadableBuffer
    from commitlog.log.open_log import OpenLog
_NOWHERE = 1 << 63


class AsyncMethods:
    """The methods of `CommitLog` for asyncio."""

    _parts: OpenLog

    async def append_async(
        self,
        value: ReadableBuffer,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> int:
        """Append one record, and wait for the disk and for required tailers without holding the
        event loop up.

        The record is appended at once, before anything else runs in this loop, unless a required
        tailer is too far behind and ``on_lag="wait"`` says to wait for it. Either way the records
        of one loop's coroutines come in the order of their calls. What is waited for after that is
        the disk, under ``flush="sync"``; all coroutines that wait for it share flushes, and one
        thread. Where `append` waits for something else, for a segment to be made or for a free pool
        buffer, so does this, and its loop with it.

        Parameters
        ----------
        value, key, type, timestamp_ns
            As for `append`.
        sync : bool, optional
            As for `append`: by default the log's ``flush=`` decides. Without it, the call returns
            when the record is appended, and a power cut can take the record back.

        Returns
        -------
        int
            The record's position; -1 where it was dropped, as for `append`.

        Raises
        ------
        asyncio.CancelledError
            Cancelling ends the wait and not the append: the record stays in the log, and becomes
            durable as if it had been waited for. Only one that is still held by a required tailer
            was not appended, and never will be.
        TailerLagError
            A required tailer is too far behind, also after ``lag_timeout``. Nothing was appended.
        SyncTimeoutError, ClosedError, LogFailedError
            With a ``position``: the record stays in the log and may be durable.
        RecordTypeError, RecordTooLargeError, DiskFullError, PoolExhaustedError, ReadOnlyError,
        ForkedError, ClaimError
            Nothing was appended.
        """
        parts = self._parts
        durable = _is_awaited(parts, sync)
        position = None
        if not _has_queue(parts):
            position = parts.engine.append_unless_held(value, key, type, timestamp_ns)
        if position is None:
            records = RecordList(parts.engine, [value], [key], [type], timestamp_ns)
            await _append_in_turn(parts, records)
            position = int(records.positions[0])
        if durable:
            await _until_durable(parts, position)
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
        """Append a list of records as `append_many` does, and wait as `append_async` does, for the
        disk once for all.

        A list that is cancelled, or fails, while a required tailer holds the rest of it, is
        appended as far as it had come.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one a record; -1 where it was dropped, as for `append_many`.
        """
        parts = self._parts
        durable = _is_awaited(parts, sync)
        records = RecordList(parts.engine, values, keys, types, timestamp_ns)
        if _has_queue(parts) or not parts.engine.append_list(records):
            await _append_in_turn(parts, records)
        if durable and records.count:
            # The greatest: behind the last record that was not dropped there may be -1.
            await _until_durable(parts, int(records.positions.max()))
        return records.positions


def _has_queue(parts: OpenLog) -> bool:
    """Whether coroutines are held by a required tailer: a later one must not overtake them."""
    return parts.writer is not None and bool(parts.writer.fair_queues)


async def _append_in_turn(parts: OpenLog, records: RecordList) -> None:
    """Append what is left of a list, after the coroutines of this loop that are held already."""
    import asyncio  # by those who use it

    from commitlog.log.fair_queue import QueueEntry

    writer = parts.writing()
    with Hold(writer.backpressure) as hold, QueueEntry(writer.fair_queues) as entry:
        hold.waited = entry.must_wait
        await entry.wait()
        while not (hold.dropped or parts.engine.append_list(records)):
            for nap_s in hold.naps(records.count - records.done):
                await asyncio.sleep(nap_s)


def _is_awaited(parts: OpenLog, sync: bool | None) -> bool:
    durable = parts.options.flush == "sync" if sync is None else bool(sync)
    if durable:
        parts.engine.check_claims(_NOWHERE)
    return durable


async def _until_durable(parts: OpenLog, position: int) -> None:
    assert parts.writer is not None  # the append was not refused
    service = parts.writer.acknowledging(parts.options.sync_timeout)
    if service is None:
        why = "the log was closed meanwhile; the record stays in it"
        raise ClosedError(why, path=parts.path, position=position)
    await service.durable(position)
