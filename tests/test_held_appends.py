"""The ends of a held coroutine's wait: cancellation, timeout, eviction, close; and the content of
the log afterwards.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import ClosedError, RecordTooLargeError, RecordTypeError, TailerLagError
from commitlog.log.parts import parts_of
from tests.holding import (
    FILLING,
    fill,
    held,
    held_halfway,
    long_list,
    outcomes_of,
    value,
    without_a_pause,
)
from tests.setups import LARGEST_VALUE, Logs, all_appended
from tests.tail.lagging import required


@pytest.mark.parametrize("who", [0, 2, 4], ids=["first", "middle", "last"])
def test_cancelled_held_append_writes_nothing(logs: Logs, who: int) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        tasks = await held(log, 5)
        tasks[who].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[who]
        assert log.count() == FILLING
        list(tailer)
        await outcomes_of(tasks)

    asyncio.run(run())
    assert all_appended(log) == filling + [value(number) for number in range(5) if number != who]
    assert parts_of(log).writer.fair_queues == {}


def test_loop_shutdown_cancels_held_appends_without_writing(logs: Logs) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    async def run() -> list[asyncio.Task[int]]:
        return await held(log, 5)

    assert all(task.cancelled() for task in asyncio.run(run()))
    assert all_appended(log) == filling
    assert parts_of(log).writer.fair_queues == {}


def test_on_lag_raise_raises_without_suspending(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    required(log)
    filling = fill(log)

    async def run() -> None:
        with pytest.raises(TailerLagError, match="nothing was appended") as caught:
            await log.append_async(b"refused", sync=True)
        assert caught.value.name == "a"
        with pytest.raises(TailerLagError):
            await log.append_many_async([b"refused"] * 3)

    without_a_pause(run())
    assert all_appended(log) == filling
    assert log.stats().lag_latency.count == 0


def test_on_lag_drop_drops_without_suspending(logs: Logs) -> None:
    log = logs.open(on_lag="drop")
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        assert await log.append_async(b"dropped") == -1
        assert (await log.append_many_async([b"dropped"] * 3)).tolist() == [-1] * 3
        assert (tailer.dropped_records, log.stats().dropped_records) == (4, 4)
        list(tailer)
        await log.append_async(b"kept")

    without_a_pause(run())
    assert all_appended(log) == [*filling, b"kept"]


def test_lag_timeout_raises_for_each_held_append(logs: Logs) -> None:
    log = logs.open(lag_timeout="20ms")
    required(log)
    filling = fill(log)

    async def run() -> None:
        for outcome in await outcomes_of([log.append_async(value(number)) for number in range(5)]):
            assert isinstance(outcome, TailerLagError)
            assert (outcome.name, "did not catch up within 0.02 s" in str(outcome)) == ("a", True)
        with pytest.raises(TailerLagError):
            await log.append_many_async([b"1", b"2"])

    asyncio.run(run())
    assert all_appended(log) == filling
    latency = log.stats().lag_latency
    assert latency.count == 6
    assert latency.longest_seconds >= 0.02
    assert parts_of(log).writer.fair_queues == {}


def test_each_held_append_counts_in_lag_latency(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    fill(log)

    async def run() -> None:
        tasks = await held(log, 5)
        list(tailer)
        await outcomes_of(tasks)
        assert log.stats().lag_latency.count == 5
        await log.append_async(b"not held")
        assert log.stats().lag_latency.count == 5

    asyncio.run(run())


def test_idle_required_tailer_is_evicted(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    log = logs.open(evict_after="30ms")
    required(log)
    filling = fill(log)
    expected = [value(number) for number in range(50)]

    async def run() -> None:
        await outcomes_of([log.append_async(each) for each in expected])

    asyncio.run(run())
    assert all_appended(log) == filling + expected
    assert log.tailers()[0].required is False
    assert "evicted" in caplog.text


@pytest.mark.parametrize("by", ["loop", "thread"])
def test_close_raises_in_each_held_append(logs: Logs, by: str) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    async def run() -> None:
        tasks: list[Any] = [
            *await held(log, 5),
            asyncio.create_task(log.append_many_async([b"1", b"2"])),
        ]
        await asyncio.sleep(0)
        if by == "loop":
            log.close()
        else:
            await asyncio.to_thread(log.close)
        assert [type(outcome) for outcome in await outcomes_of(tasks)] == [ClosedError] * 6
        assert parts_of(log).writer.fair_queues == {}

    asyncio.run(run())
    assert all_appended(logs.open(mode="r")) == filling


def test_closed_loop_releases_its_held_appends(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)
    loop = asyncio.new_event_loop()
    complaints: list[Any] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    tasks = loop.run_until_complete(held(log, 5))
    gone = [weakref.ref(task) for task in tasks]
    assert len(parts_of(log).writer.fair_queues) == 1
    loop.close()
    del tasks
    gc.collect()
    assert [task() for task in gone] == [None] * 5
    # asyncio logs these complaints, and no others.
    assert complaints == ["Task was destroyed but it is pending!"] * 5
    assert parts_of(log).writer.fair_queues == {}
    list(tailer)
    asyncio.run(log.append_async(b"from another loop"))
    assert all_appended(log) == [*filling, b"from another loop"]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (lambda log: log.append_async("text"), RecordTypeError),
        (lambda log: log.append_async(b"", type=-1), RecordTypeError),
        (lambda log: log.append_async(bytes(LARGEST_VALUE + 1)), RecordTooLargeError),
        (lambda log: log.append_many_async([b"a", 3]), RecordTypeError),
    ],
    ids=["value", "type", "large", "list"],
)
def test_wrong_value_raises_before_it_is_held(
    logs: Logs, wrong: Callable[[CommitLog], Any], expected: type[Exception]
) -> None:
    log = logs.open()
    required(log)
    fill(log)

    async def run() -> None:
        tasks = await held(log, 1)
        with pytest.raises(expected):
            wrong(log).send(None)
        tasks[0].cancel()

    with pytest.raises(expected):
        wrong(log).send(None)
    asyncio.run(run())
    assert log.count() == FILLING


def test_held_append_writes_the_bytes_at_call_time(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    fill(log)

    async def run() -> None:
        given, key = bytearray(b"given"), bytearray(b"key")
        task = asyncio.create_task(log.append_async(given, key=key))
        await asyncio.sleep(0)
        given[:], key[:] = b"other", b"yek"
        list(tailer)
        record = log.read(await task)
        assert (record.value, record.key) == (b"given", b"key")

    asyncio.run(run())


def test_list_cancelled_halfway_keeps_its_appended_part(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    with held_halfway(log) as (loop, task):
        there = log.count()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        list(tailer)
        loop.run_until_complete(log.append_async(b"behind it"))
    assert all_appended(log) == [*long_list()[:there], b"behind it"]


def test_list_timed_out_halfway_keeps_its_appended_part(logs: Logs) -> None:
    log = logs.open(lag_timeout="20ms")
    required(log)
    with held_halfway(log) as (loop, task):
        there = log.count()
        with pytest.raises(TailerLagError):
            loop.run_until_complete(task)
    assert all_appended(log) == long_list()[:there]


def test_dead_required_reader_blocks_appends_until_eviction(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open()
    told = parts_of(log).engine.cursors["required"]
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = required(reader)
            tailer.read()
            signal.pause()
    until(lambda: parts_of(log).engine.cursors["required"] != told)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # Until the writer notices the tailer.
    while parts_of(log).engine.refusal == 0:
        log.append(b"before")
    there = log.count()

    async def run() -> None:
        tasks = await held(log, 5)
        assert log.evict_tailer("a")
        await outcomes_of(tasks)

    asyncio.run(run())
    assert all_appended(log)[there:] == [value(number) for number in range(5)]
