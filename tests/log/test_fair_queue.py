"""Coroutines that wait for a required tailer: the event loop keeps running, appends keep their
order.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import commitlog
from commitlog.log.open_log import OpenLog
from commitlog.log.parts import parts_of
from tests.holding import (
    FILLING,
    fill,
    held,
    held_halfway,
    long_list,
    no_thread_waits,
    outcomes_of,
    read_on,
    value,
)
from tests.setups import Logs, Setup, all_appended
from tests.tail.lagging import MAX_LAG, required

# --- the loop runs on -----------------------------------------------------------------------------


def test_reader_in_the_same_loop_releases_waiting_appends(
    logs: Logs, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open_as(setup)
    tailer = required(log)
    no_thread_waits(monkeypatch)
    expected = [value(number) for number in range(300)]

    async def run() -> None:
        reading = asyncio.create_task(read_on(tailer, 300))
        positions = await asyncio.gather(*(log.append_async(each) for each in expected))
        assert positions == sorted(set(positions))
        if setup.flush == "sync":
            assert log.flushed_position > positions[-1]
        assert await reading == expected

    asyncio.run(run())
    assert parts_of(log).writer.fair_queues == {}


def test_successive_appends_each_wait_for_the_reader(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()
    tailer = required(log)
    no_thread_waits(monkeypatch)

    async def run() -> None:
        reading = asyncio.create_task(read_on(tailer, 200))
        for number in range(200):
            await log.append_async(value(number), key=b"k", type=number, timestamp_ns=number)
        await reading

    asyncio.run(run())
    assert [(record.key, record.type, record.timestamp_ns) for record in log.tailer()] == [
        (b"k", n, n) for n in range(200)
    ]


def test_limit_reached_within_an_append_does_not_block_the_loop(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-pressure begins inside the append: it finds no limit reached, and while it rolls,
    another thread passes the limit.
    """
    log = logs.open(allocate_ahead=0)  # so that the roll asks the policy
    tailer = required(log)
    log.append_many([b"1", b"2"])
    log.append(b"3")  # from here on the writer knows the limit
    no_thread_waits(monkeypatch)
    roll_from = OpenLog.roll_from

    def roll_and_pass_the_limit(self: OpenLog, number: int) -> None:
        monkeypatch.setattr(OpenLog, "roll_from", roll_from)
        roll_from(self, number)
        other = threading.Thread(target=log.append, args=(bytes(MAX_LAG),))
        other.start()
        other.join()

    monkeypatch.setattr(OpenLog, "roll_from", roll_and_pass_the_limit)
    parts_of(log).engine.close_segment()

    async def run() -> None:
        assert parts_of(log).engine.refusal == 0
        appending = asyncio.create_task(log.append_async(b"after the roll"))
        await asyncio.sleep(0)
        assert not appending.done()
        assert await read_on(tailer, 5) == [b"1", b"2", b"3", bytes(MAX_LAG), b"after the roll"]
        await appending

    asyncio.run(run())


def test_waiting_appends_need_no_thread(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        before = set(threading.enumerate())
        tasks = await held(log, 1000)
        assert set(threading.enumerate()) <= before
        reading = asyncio.create_task(read_on(tailer, FILLING + 1000))
        await asyncio.gather(*tasks)
        assert set(threading.enumerate()) <= before
        assert await reading == filling + [value(number) for number in range(1000)]

    asyncio.run(run())


# --- order of arrival -----------------------------------------------------------------------------


def test_later_append_does_not_overtake_waiting_ones(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        tasks = await held(log, 3)
        assert len(list(tailer)) == FILLING
        log.append(b"opens the gate")  # as a thread, which does not queue
        late: list[Coroutine[Any, Any, Any]] = [
            log.append_async(b"late"),
            log.append_many_async([b"later", b"last"]),
        ]
        for coroutine in late:
            assert coroutine.send(None) is not None
            coroutine.close()
        late_tasks = [
            asyncio.create_task(log.append_async(b"late")),
            asyncio.create_task(log.append_many_async([b"later", b"last"])),
        ]
        await asyncio.gather(*tasks, *late_tasks)

    asyncio.run(run())
    assert all_appended(log) == [
        *filling,
        b"opens the gate",
        *(value(number) for number in range(3)),
        b"late",
        b"later",
        b"last",
    ]


def test_each_of_several_loops_keeps_its_own_order(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    fill(log)
    started = threading.Barrier(4)

    def run(prefix: bytes) -> None:
        async def append_all() -> None:
            tasks = await held(log, 100, prefix)
            await asyncio.to_thread(started.wait)
            await outcomes_of(tasks)

        asyncio.run(append_all())

    threads = [
        threading.Thread(target=run, args=(prefix,)) for prefix in (b"one ", b"two ", b"three ")
    ]
    for thread in threads:
        thread.start()
    started.wait()
    read = [record.value for record in tailer.follow(timeout=0)]
    while len(read) < FILLING + 300:
        record = tailer.read(timeout=60)
        assert record is not None
        read.append(record.value)
    for thread in threads:
        thread.join()
    for prefix in (b"one ", b"two ", b"three "):
        assert [each for each in read if each.startswith(prefix)] == [
            value(number, prefix) for number in range(100)
        ]


# --- lists ----------------------------------------------------------------------------------------


def test_list_blocked_halfway_resumes_ahead_of_later_appends(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()
    tailer = required(log)
    no_thread_waits(monkeypatch)

    async def run(task: asyncio.Task[npt.NDArray[np.int64]]) -> None:
        behind = asyncio.create_task(log.append_async(b"behind it"))
        assert await read_on(tailer, 3001) == [*long_list(), b"behind it"]
        positions = await task
        assert positions.tolist() == [record.position for record in log.tailer()][:3000]
        assert await behind > positions[-1]

    with held_halfway(log) as (loop, task):
        loop.run_until_complete(run(task))
    assert log.stats().lag_latency.count >= 2


# --- two processes --------------------------------------------------------------------------------


def test_reader_in_another_process_releases_appends(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    log = logs.open()
    told = parts_of(log).engine.cursors["required"]
    held_end, tell_held = os.pipe()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = required(reader)
            os.read(held_end, 1)
            for _ in range(300):
                record = tailer.read(timeout=30)
                os.write(write_end, record.value if record is not None else b"nothing came")
        os._exit(0)
    os.close(write_end)
    os.close(held_end)
    until(lambda: parts_of(log).engine.cursors["required"] != told)
    no_thread_waits(monkeypatch)

    async def run() -> None:
        tasks = [asyncio.create_task(log.append_async(value(number))) for number in range(300)]
        await asyncio.sleep(0)
        # the number appended before the writer knows of the tailer
        assert 20 < sum(task.done() for task in tasks) < 200
        os.write(tell_held, b"!")
        await outcomes_of(tasks)

    asyncio.run(run())
    with os.fdopen(read_end, "rb") as stream:
        assert stream.read() == b"".join(value(number) for number in range(300))
    assert os.waitpid(child, 0)[1] == 0
    os.close(tell_held)


def test_forked_child_has_its_own_fair_queue(
    logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    def append() -> int:
        there = len(parts_of(log).writer.fair_queues)
        log.evict_tailer("a")
        asyncio.run(log.append_async(b"child"))
        return there

    async def run() -> None:
        tasks = await held(log, 2)
        assert in_child(append) == 0
        await outcomes_of(tasks)

    asyncio.run(run())
    assert all_appended(log) == [*filling, b"child", value(0), value(1)]
