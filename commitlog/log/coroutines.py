"""AsyncMethods: appends from coroutines, without one thread per waiting coroutine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import RecordList
from commitlog.log.async_append import (
    append_in_turn,
    append_list_async,
    has_queue,
    is_awaited,
    until_durable,
)

if TYPE_CHECKING:
    from commitlog._kernel.engine import ReadableBuffer
    from commitlog.log.open_log import OpenLog


class AsyncMethods:
    """The asyncio methods of `CommitLog`."""

    _parts: OpenLog

    async def append_async(
        self,
        value: ReadableBuffer,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
        expect: int | None = None,
        producer: str | None = None,
        producer_sequence: int | None = None,
        headers: Mapping[str, ReadableBuffer] | None = None,
    ) -> int:
        """Append one record; wait for durability and back-pressure without blocking the loop.

        The call appends the record before it yields to the event loop, unless ``on_lag="wait"``
        makes it wait for a required tailer, or `expect` for an open claim. In all cases the records
        of one loop's coroutines are in the order of their calls. Under ``flush="sync"`` the
        coroutine then waits for durability; all waiting coroutines share flushes and one thread. If
        an append must wait for a new segment or a free pool buffer, this call blocks the event
        loop.

        Parameters
        ----------
        value, key, type, timestamp_ns, headers
            As for `append`.
        sync : bool, optional
            As for `append`: by default the log's ``flush=`` decides. If False, the call returns
            when the record is appended, and a power cut can lose the record.
        expect : int, optional
            As for `append`. The first call of a handle with `expect` scans the last segment and
            blocks the event loop meanwhile.
        producer, producer_sequence
            As for `append`. The first call with a name scans the segments since the log was last
            closed, and blocks the event loop meanwhile. So does a wait for a required tailer.

        Returns
        -------
        int
            The record's position; -1 if it was dropped, as for `append`.

        Raises
        ------
        asyncio.CancelledError
            Cancelling ends the wait, not the append: the record stays in the log and becomes
            durable. If the coroutine still waited for a required tailer or an open claim, the
            record is not appended.
        TailerLagError
            A required tailer is still too far behind after ``lag_timeout``. Nothing was appended.
        SyncTimeoutError, ClosedError, LogFailedError
            If the error has a ``position``, the record stays in the log and may be durable.
        RecordTypeError, RecordTooLargeError, ConflictError, SequenceError, ClaimError
            The record or its condition is refused. Nothing was appended.
        DiskFullError, PoolExhaustedError, ReadOnlyError, ForkedError
            The log cannot take the record. Nothing was appended.
        """
        parts = self._parts
        durable = is_awaited(parts, sync)
        position = None
        if producer is not None or producer_sequence is not None:
            record = value, key, type, timestamp_ns, headers
            position = parts.append_once(producer, producer_sequence, record, False, expect)
        elif headers is None and not has_queue(parts):
            position = parts.engine.append_unless_held(value, key, type, timestamp_ns, expect)
        if position is None:
            records = RecordList(
                parts.engine, [value], [key], [type], timestamp_ns, expect, headers=[headers]
            )
            if headers is None or has_queue(parts) or not parts.engine.append_list(records):
                await append_in_turn(parts, records)
            position = int(records.positions[0])
        if durable and position >= 0:
            await until_durable(parts, position)
        return position

    async def append_many_async(
        self,
        values: Iterable[ReadableBuffer],
        *,
        keys: Iterable[ReadableBuffer | None] | None = None,
        types: Iterable[int] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
        expect: int | None = None,
        headers: Iterable[Mapping[str, ReadableBuffer] | None] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Append a list of records as `append_many` does; wait once, as `append_async` does.

        If the call is cancelled or fails while it waits for a required tailer, the records before
        that point stay appended and the rest are not.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one per record; -1 for a dropped record, as for `append_many`.
        """
        engine = self._parts.engine
        records = RecordList(engine, values, keys, types, timestamp_ns, expect, headers=headers)
        return await append_list_async(self._parts, records, sync)
