"""Helpers for the tests of held coroutines: a log at its limit, and tasks that wait there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from commitlog import CommitLog, Tailer
from commitlog.log.open_log import OpenLog

# The number of appends up to the limit, including the one that exceeds it.
FILLING = 21


def value(number: int, prefix: bytes = b"") -> bytes:
    return (prefix + b"%d " % number).ljust(100, b".")


def fill(log: CommitLog) -> list[bytes]:
    """Append up to the limit: the log holds the next append."""
    filling = [value(number, b"filling ") for number in range(FILLING)]
    for each in filling:
        log.append(each)
    return filling


def no_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an append fail that would block its thread."""

    def fail(self: OpenLog, records: int) -> bool:
        raise AssertionError("the loop was held up")

    monkeypatch.setattr(OpenLog, "hold_back", fail)


async def held(
    log: CommitLog, count: int, prefix: bytes = b"", **options: Any
) -> list[asyncio.Task[int]]:
    """Create tasks whose appends wait behind those already waiting."""
    before = log.tail_position
    tasks = [
        asyncio.create_task(log.append_async(value(number, prefix), **options))
        for number in range(count)
    ]
    await asyncio.sleep(0)
    assert log.tail_position == before
    assert not any(task.done() for task in tasks)
    return tasks


async def read_on(tailer: Tailer, count: int) -> list[bytes]:
    """Read `count` values, yielding to the event loop between reads."""
    read: list[bytes] = []
    async with asyncio.timeout(30):
        while len(read) < count:
            record = tailer.read()
            if record is not None:
                read.append(record.value)
            await asyncio.sleep(0)
    return read


def without_a_pause(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in an event loop and check that it ends without being suspended."""

    async def step() -> None:
        with pytest.raises(StopIteration):
            coroutine.send(None)

    asyncio.run(step())


async def outcomes_of(tasks: list[Any]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)


def long_list() -> list[bytes]:
    """A list of several batches, each of which exceeds the limit."""
    return [value(number) for number in range(3000)]


@contextmanager
def held_halfway(
    log: CommitLog,
) -> Iterator[tuple[asyncio.AbstractEventLoop, asyncio.Task[npt.NDArray[np.int64]]]]:
    """A task that appends a list: its first batch is appended, and the log holds the rest."""
    with asyncio.Runner() as runner:

        async def begin() -> asyncio.Task[npt.NDArray[np.int64]]:
            task = asyncio.create_task(log.append_many_async(long_list()))
            await asyncio.sleep(0)
            assert not task.done()
            assert 0 < log.count() < 3000
            return task

        yield runner.get_loop(), runner.run(begin())
