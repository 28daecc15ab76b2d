"""Appends from coroutines: wait for a turn and for durability without blocking the loop."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import REFUSED_LAG, RecordList
from commitlog.base.option import switch
from commitlog.errors import ClosedError
from commitlog.log.parts import LogParts
from commitlog.tail.backpressure import Hold

_NOWHERE = 1 << 63
_CLAIM_NAP_S = 0.0001


async def append_list_async(
    parts: LogParts, records: RecordList, sync: bool | None
) -> npt.NDArray[np.int64]:
    """Append a list as `AsyncMethods.append_many_async` does."""
    durable = is_awaited(parts, sync)
    if has_queue(parts) or not parts.engine.append_list(records):
        await append_in_turn(parts, records)
    if durable and records.count:
        # The maximum, not the last: dropped records at the end have position -1.
        await until_durable(parts, int(records.positions.max()))
    return records.positions


def has_queue(parts: LogParts) -> bool:
    """Return whether coroutines wait for a required tailer; a later one must not overtake them."""
    return parts.writer is not None and bool(parts.writer.fair_queues)


async def append_in_turn(parts: LogParts, records: RecordList) -> None:
    """Append the rest of a list, after the coroutines of this loop that already wait."""
    import asyncio  # only coroutines need it

    from commitlog.log.fair_queue import QueueEntry

    writer = parts.writing()
    with Hold(writer.backpressure) as hold, QueueEntry(writer.fair_queues) as entry:
        hold.waited = entry.must_wait
        await entry.wait()
        while not (hold.dropped or parts.engine.append_list(records)):
            if parts.engine.refusal != REFUSED_LAG:
                await asyncio.sleep(_CLAIM_NAP_S)  # a claim below the end is open
            for nap_s in hold.naps(records.count - records.done):
                await asyncio.sleep(nap_s)


def is_awaited(parts: LogParts, sync: bool | None) -> bool:
    durable = parts.options.flush == "sync" if sync is None else switch(sync, "sync")
    if durable:
        parts.engine.check_claims(_NOWHERE)
    return durable


async def until_durable(parts: LogParts, position: int) -> None:
    assert parts.writer is not None  # the append was not refused
    service = parts.writer.acknowledging(parts.options.sync_timeout)
    if service is None:
        why = "the log was closed before the record was durable; the record stays in the log"
        raise ClosedError(why, path=parts.path, position=position)
    await service.durable(position)
