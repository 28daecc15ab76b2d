"""CoroutineHandle: appending from coroutines, which wait for the disk without a thread each."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from commitlog._kernel.core import GATE_CLOSED
from commitlog.errors import ClosedError
from commitlog.handle import LogHandle

if TYPE_CHECKING:
    from commitlog._kernel.writer import ReadableBuffer

_start_lock = threading.Lock()
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
        """Append one record, and wait for the disk without holding the event loop up.

        The record is appended at once, before anything else runs in this loop: records come in the order of the calls. What is waited for
        is the disk alone, under ``flush="sync"``; all coroutines that wait share flushes, and one thread.

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
        SyncTimeoutError, ClosedError, LogFailedError
            With a ``position``: the record stays in the log and may be durable.
        RecordTypeError, RecordTooLargeError, DiskFullError, PoolExhaustedError, ReadOnlyError, ForkedError, ClaimError
            Nothing was appended.
        """
        durable = self._is_awaited(sync)
        position = self.append(value, key=key, type=type, timestamp_ns=timestamp_ns, sync=False)
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
        """Append a list of records as `append_many` does, and wait for the disk as `append_async` does, once for all.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one a record; -1 where it was dropped, as for `append_many`.
        """
        durable = self._is_awaited(sync)
        positions = self.append_many(values, keys=keys, types=types, timestamp_ns=timestamp_ns, sync=False)
        if durable and len(positions):
            await self._until_durable(int(positions.max()))  # behind the last one that was not dropped there may be -1
        return positions

    def _is_awaited(self, sync: bool | None) -> bool:
        durable = self.options.flush == "sync" if sync is None else bool(sync)
        if durable:
            self.check_claims(_NOWHERE)
        return durable

    async def _until_durable(self, position: int) -> None:
        service = self._acknowledge_service
        if service is None:
            from commitlog.flush.acknowledge_service import AcknowledgeService  # asyncio is imported by those who use it

            with _start_lock:
                if self.gate == GATE_CLOSED:
                    raise ClosedError("the log was closed meanwhile; the record stays in it", path=self.path, position=position)
                if self._acknowledge_service is None:
                    self._acknowledge_service = AcknowledgeService(self, self.options.sync_timeout)
                    self._acknowledge_service.start()
                service = self._acknowledge_service
        await service.durable(position)
