"""Appends from coroutines: when an await returns, what ends it early, and that the log stays
usable.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pytest

from commitlog import CommitLog
from commitlog.errors import (
    ClaimError,
    ClosedError,
    CloseTimeoutError,
    CommitLogError,
    LogFailedError,
    ReadOnlyError,
    RecordTypeError,
    SyncTimeoutError,
)
from commitlog.flush.acknowledge_service import AcknowledgeService
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, Logs, Setup, all_appended


@contextmanager
def held_up(log: CommitLog) -> Iterator[None]:
    """Keep a claim of another thread open during the block, so that nothing behind it becomes
    durable.
    """
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 8, sync=False).result()
        yield
        with claim:
            claim.buffer[:] = b"the hold"


async def pending(log: CommitLog, count: int, prefix: bytes = b"") -> list[asyncio.Task[int]]:
    """Return tasks that have appended and wait for the flush."""
    tasks = [
        asyncio.create_task(log.append_async(prefix + b"%d" % number)) for number in range(count)
    ]
    await asyncio.sleep(0)
    return tasks


def waiting(log: CommitLog) -> int:
    return len(cast(AcknowledgeService, parts_of(log).writer.acknowledge_service)._waiting)


def helpers() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("commitlog acknowledge")
    ]


def test_append_async_is_durable_on_return_only_if_synced(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)

    async def append() -> None:
        before = log.flushed_position
        position = await log.append_async(b"one", key=b"k", type=3, timestamp_ns=77)
        record = log.read(position)
        assert (record.value, record.key, record.type, record.timestamp_ns) == (b"one", b"k", 3, 77)
        assert (log.flushed_position > position) == (setup.flush == "sync")
        if setup.flush != "sync":
            assert log.flushed_position == before
        second = await log.append_async(b"two", sync=True)
        assert log.flushed_position > second
        third = await log.append_async(b"three", sync=False)
        assert log.flushed_position <= third

    asyncio.run(append())


def test_thousands_of_waiting_coroutines_share_flushes(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)

    async def append_all() -> list[int]:
        positions = await asyncio.gather(
            *(log.append_async(b"%05d" % number, sync=True) for number in range(4000))
        )
        assert len(helpers()) == 1
        return positions

    positions = asyncio.run(append_all())
    assert positions == sorted(set(positions))
    assert all_appended(log) == [b"%05d" % number for number in range(4000)]
    assert log.flushed_position == log.tail_position
    stats = log.stats()
    assert stats.syncs == 4000
    assert stats.flushes < 400
    log.close()
    assert helpers() == []


def test_append_many_async_waits_once(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)

    async def append() -> None:
        positions = await log.append_many_async(
            [b"a", b"b", b"c"], keys=[b"1", None, b"3"], types=[1, 2, 3], sync=True
        )
        assert log.flushed_position > positions[-1]
        assert [log.read(int(position)).type for position in positions] == [1, 2, 3]
        assert len(await log.append_many_async([], sync=True)) == 0

    asyncio.run(append())
    assert log.stats().syncs == 1


def test_cancelled_await_keeps_its_record_and_other_waiters(logs: Logs) -> None:
    log = logs.open(flush="sync", claim_timeout=60, sync_timeout=60, **BY_HAND)

    async def append() -> None:
        with held_up(log):
            tasks = await pending(log, 5)
            for task in tasks[1::2]:
                task.cancel()
            outcomes = await asyncio.gather(*tasks[1::2], return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            assert not any(task.done() for task in tasks[::2])
        assert await asyncio.gather(*tasks[::2]) == sorted(task.result() for task in tasks[::2])

    asyncio.run(append())
    assert all_appended(log) == [b"the hold", b"0", b"1", b"2", b"3", b"4"]
    assert waiting(log) == 0


def test_sync_timeout_carries_the_position_of_the_record(logs: Logs) -> None:
    log = logs.open(flush="sync", claim_timeout=60, sync_timeout=0.03, **BY_HAND)

    async def append() -> list[Any]:
        with held_up(log):
            outcomes: list[Any] = await asyncio.gather(
                *await pending(log, 3), return_exceptions=True
            )
        log.flush(10)
        assert log.flushed_position > max(outcome.position for outcome in outcomes)
        return outcomes

    outcomes = asyncio.run(append())
    assert [type(outcome) for outcome in outcomes] == [SyncTimeoutError] * 3
    assert [log.read(outcome.position).value for outcome in outcomes] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("backing", ["mapped", "anonymous"])
def test_failed_log_raises_in_every_waiting_coroutine(logs: Logs, backing: Any) -> None:
    log = logs.open_as(Setup("sync", backing), claim_timeout=60, sync_timeout=60, **BY_HAND)

    async def append() -> list[Any]:
        with held_up(log):
            tasks = await pending(log, 3)
            parts_of(log).engine.fail(errno.EIO)
            return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(append())
    assert [type(outcome) for outcome in outcomes] == [LogFailedError] * 3
    assert len({outcome.position for outcome in outcomes}) == 3
    with pytest.raises(LogFailedError):
        asyncio.run(log.append_async(b"later"))
    with pytest.raises(LogFailedError):
        log.close()


def test_close_flushes_the_records_that_coroutines_await(logs: Logs) -> None:
    log = logs.open(flush="sync", claim_timeout=60, sync_timeout=60, close_timeout=0.03, **BY_HAND)

    async def append() -> None:
        with held_up(log):
            tasks = await pending(log, 3)
            with pytest.raises(CloseTimeoutError):
                log.close()
            with pytest.raises(ClosedError):
                await log.append_async(b"too late")
            assert not any(task.done() for task in tasks)
        while not log.closed:  # a close that timed out is repeated
            with contextlib.suppress(CloseTimeoutError):
                log.close()
        assert await asyncio.gather(*tasks) == sorted(task.result() for task in tasks)

    asyncio.run(append())
    assert all_appended(logs.open(mode="r")) == [b"the hold", b"0", b"1", b"2"]


def test_stopped_acknowledge_service_raises_closed_to_waiters(logs: Logs) -> None:
    log = logs.open(claim_timeout=60, **BY_HAND)
    service = AcknowledgeService(parts_of(log).engine, 60)
    service.start()

    async def wait() -> None:
        with held_up(log):
            positions = [log.append(b"%d" % number) for number in range(2)]
            tasks = [asyncio.create_task(service.durable(position)) for position in positions]
            await asyncio.sleep(0)
            service.stop()
            for task, position in zip(tasks, positions, strict=True):
                with pytest.raises(ClosedError, match="it stays in the log") as caught:
                    await task
                assert caught.value.position == position
            with pytest.raises(ClosedError):
                await service.durable(positions[0])

    asyncio.run(wait())
    assert service.join(60)


def test_several_event_loops_append_to_one_log(logs: Logs) -> None:
    log = logs.open(flush="sync", **BY_HAND)
    started = threading.Barrier(4)

    def run(number: int) -> list[int]:
        async def append_all() -> list[int]:
            started.wait()
            return [
                position
                for turn in range(5)
                for position in await asyncio.gather(
                    *await pending(log, 50, b"%d %d " % (number, turn))
                )
            ]

        return asyncio.run(append_all())

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(run, range(4)))
    assert len({position for positions in outcomes for position in positions}) == 1000
    for number, positions in enumerate(outcomes):
        expected = [b"%d %d %d" % (number, turn, index) for turn in range(5) for index in range(50)]
        assert [log.read(position).value for position in positions] == expected


def test_loop_closed_during_append_waits_leaves_log_usable(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(flush="sync", claim_timeout=60, sync_timeout=60, **BY_HAND)
    loop = asyncio.new_event_loop()
    # the loop would report its pending tasks
    loop.set_exception_handler(lambda loop, context: None)
    with held_up(log):
        tasks = loop.run_until_complete(pending(log, 3))
        loop.close()
        assert waiting(log) == 3
    until(lambda: waiting(log) == 0)
    assert (
        log.read(asyncio.run(log.append_async(b"from another loop"))).value == b"from another loop"
    )
    del tasks
    gc.collect()


def test_forked_child_acknowledges_its_own_appends(
    logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open(flush="sync", **BY_HAND)
    asyncio.run(log.append_async(b"parent"))

    def append() -> bool:
        position = asyncio.run(log.append_async(b"child"))
        return log.flushed_position > position

    assert in_child(append)
    assert all_appended(log) == [b"parent", b"child"]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda log: log.append_async("text"), RecordTypeError),
        (lambda log: log.append_async(b"", type=-1), RecordTypeError),
        (lambda log: log.append_async(b"", key="k"), RecordTypeError),
        (lambda log: log.append_async(b"", timestamp_ns=-1), RecordTypeError),
        (lambda log: log.append_many_async([b"a", 3]), RecordTypeError),
    ],
    ids=["value", "type", "key", "timestamp", "list"],
)
def test_invalid_async_append_is_refused_and_appends_nothing(
    logs: Logs, wrong: Callable[[CommitLog], Awaitable[Any]], expected: type[CommitLogError]
) -> None:
    log = logs.open(flush="sync")

    async def append() -> None:
        await wrong(log)

    with pytest.raises(expected):
        asyncio.run(append())
    assert log.count() == 0


def test_wait_behind_an_own_claim_is_refused_before_append(logs: Logs) -> None:
    log = logs.open(flush="sync")
    with log.claim(1) as claim:
        with pytest.raises(ClaimError):
            asyncio.run(log.append_async(b"behind it"))
        claim.buffer[:] = b"1"
    assert all_appended(log) == [b"1"]


def test_append_async_to_read_only_log_is_refused(logs: Logs) -> None:
    logs.open().append(b"1")
    with pytest.raises(ReadOnlyError):
        asyncio.run(logs.open(mode="r").append_async(b"2", sync=True))


def test_awaited_appends_survive_a_kill(logs: Logs) -> None:
    log = logs.open(flush="sync", **BY_HAND)
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:

        async def append(number: int) -> None:
            position = await log.append_async(b"%d" % number)
            os.write(telling, b"%d %d %d\n" % (number, position, log.flushed_position))
            if number == 150:
                os.kill(os.getpid(), signal.SIGKILL)

        async def append_all() -> None:
            await asyncio.gather(*(append(number) for number in range(300)))

        try:
            asyncio.run(append_all())
        finally:
            os._exit(1)
    os.close(telling)
    with os.fdopen(told, "rb") as stream:
        lines = [tuple(map(int, line.split())) for line in stream]
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert 150 in [number for number, _, _ in lines]
    for number, position, flushed in lines:
        assert flushed > position
        assert log.read(position).value == b"%d" % number
    assert log.read(asyncio.run(log.append_async(b"on"))).value == b"on"
