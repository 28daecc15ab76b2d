"""Coroutines that a required tailer holds: the loop runs on, nobody overtakes, and whatever ends a wait ends it for good."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import commitlog
from commitlog import CommitLog, Tailer
from commitlog.errors import ClosedError, RecordTooLargeError, RecordTypeError, TailerLagError
from tests.setups import LARGEST_VALUE, Logs, Setup, all_appended

FRAME = 120
MAX_LAG = 20 * FRAME
FILLING = 21  # appends until the limit, the one that goes past it included


def required(log: CommitLog, **options: Any) -> Tailer:
    return log.tailer("a", required=True, max_lag=MAX_LAG, visibility="appended", **options)


def value(number: int, prefix: bytes = b"") -> bytes:
    return (prefix + b"%d " % number).ljust(100, b".")


def fill(log: CommitLog) -> list[bytes]:
    """Append up to the limit: whatever comes next is held."""
    filling = [value(number, b"filling ") for number in range(FILLING)]
    for each in filling:
        log.append(each)
    return filling


def no_thread_waits(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on an append that would hold its thread fails."""

    def fail(records: int) -> bool:
        raise AssertionError("the loop was held up")

    monkeypatch.setattr(log, "hold_back", fail)


async def held(log: CommitLog, count: int, prefix: bytes = b"", **options: Any) -> list[asyncio.Task[int]]:
    """Tasks whose appends wait, after those that wait already."""
    before = log.tail_position
    tasks = [asyncio.create_task(log.append_async(value(number, prefix), **options)) for number in range(count)]
    await asyncio.sleep(0)
    assert log.tail_position == before
    assert not any(task.done() for task in tasks)
    return tasks


async def read_on(tailer: Tailer, count: int) -> list[bytes]:
    """In turns with the rest of the loop."""
    read: list[bytes] = []
    async with asyncio.timeout(30):
        while len(read) < count:
            record = tailer.read()
            if record is not None:
                read.append(record.value)
            await asyncio.sleep(0)
    return read


def without_a_pause(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, in a loop, where it is not suspended once."""

    async def step() -> None:
        with pytest.raises(StopIteration):
            coroutine.send(None)

    asyncio.run(step())


async def outcomes_of(tasks: list[Any]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)


# --- the loop runs on ----------------------------------------------------------------------------------------------------


def test_the_loop_runs_on_and_the_reader_in_it_lets_appends_go(logs: Logs, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.open_as(setup)
    tailer = required(log)
    no_thread_waits(log, monkeypatch)
    expected = [value(number) for number in range(300)]

    async def run() -> None:
        reading = asyncio.create_task(read_on(tailer, 300))
        positions = await asyncio.gather(*(log.append_async(each) for each in expected))
        assert positions == sorted(set(positions))
        if setup.flush == "sync":
            assert log.flushed_position > positions[-1]
        assert await reading == expected

    asyncio.run(run())
    assert log._turns == {}


def test_one_after_the_other_they_are_held_and_let_go(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.open()
    tailer = required(log)
    no_thread_waits(log, monkeypatch)

    async def run() -> None:
        reading = asyncio.create_task(read_on(tailer, 200))
        for number in range(200):
            await log.append_async(value(number), key=b"k", type=number, timestamp_ns=number)
        await reading

    asyncio.run(run())
    assert [(record.key, record.type, record.timestamp_ns) for record in log.tailer()] == [(b"k", n, n) for n in range(200)]


def test_a_limit_that_is_met_within_an_append_holds_no_loop_up(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append that rolls finds the gate open when it begins; while it rolls, another thread goes past the limit."""
    log = logs.open()
    tailer = required(log)
    log.append_many([b"1", b"2"])
    log.append(b"3")  # from now on the limit is known
    no_thread_waits(log, monkeypatch)
    roll_from = log.roll_from

    def roll_and_pass_the_limit(number: int) -> None:
        monkeypatch.setattr(log, "roll_from", roll_from)
        roll_from(number)
        other = threading.Thread(target=log.append, args=(bytes(MAX_LAG),))
        other.start()
        other.join()

    monkeypatch.setattr(log, "roll_from", roll_and_pass_the_limit)
    log.close_segment()

    async def run() -> None:
        assert log.gate == 0
        appending = asyncio.create_task(log.append_async(b"after the roll"))
        await asyncio.sleep(0)
        assert not appending.done()
        assert await read_on(tailer, 5) == [b"1", b"2", b"3", bytes(MAX_LAG), b"after the roll"]
        await appending

    asyncio.run(run())


def test_there_is_no_thread_for_those_who_are_held(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        before = threading.enumerate()
        tasks = await held(log, 1000)
        assert threading.enumerate() == before
        reading = asyncio.create_task(read_on(tailer, FILLING + 1000))
        await asyncio.gather(*tasks)
        assert threading.enumerate() == before
        assert await reading == filling + [value(number) for number in range(1000)]

    asyncio.run(run())


# --- nobody overtakes ----------------------------------------------------------------------------------------------------


def test_who_comes_when_the_gate_is_open_again_does_not_overtake(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)

    async def run() -> None:
        tasks = await held(log, 3)
        assert len(list(tailer)) == FILLING
        log.append(b"opens the gate")  # as a thread would, which has no place in this order
        late: list[Coroutine[Any, Any, Any]] = [log.append_async(b"late"), log.append_many_async([b"later", b"last"])]
        for coroutine in late:
            assert coroutine.send(None) is not None
            coroutine.close()
        late_tasks = [asyncio.create_task(log.append_async(b"late")), asyncio.create_task(log.append_many_async([b"later", b"last"]))]
        await asyncio.gather(*tasks, *late_tasks)

    asyncio.run(run())
    assert all_appended(log) == [*filling, b"opens the gate", *(value(number) for number in range(3)), b"late", b"later", b"last"]


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

    threads = [threading.Thread(target=run, args=(prefix,)) for prefix in (b"one ", b"two ", b"three ")]
    for thread in threads:
        thread.start()
    started.wait()
    read = [record.value for record in tailer.follow(timeout=0)]
    while len(read) < FILLING + 300:
        record = tailer.read(timeout=10)
        assert record is not None
        read.append(record.value)
    for thread in threads:
        thread.join()
    for prefix in (b"one ", b"two ", b"three "):
        assert [each for each in read if each.startswith(prefix)] == [value(number, prefix) for number in range(100)]


# --- what ends a wait ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [0, 2, 4], ids=["first", "middle", "last"])
def test_who_is_cancelled_while_held_has_appended_nothing_and_the_others_go_on(logs: Logs, who: int) -> None:
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
    assert log._turns == {}


def test_all_who_are_held_at_the_end_of_their_program_have_appended_nothing(logs: Logs) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    async def run() -> list[asyncio.Task[int]]:
        return await held(log, 5)

    assert all(task.cancelled() for task in asyncio.run(run()))
    assert all_appended(log) == filling
    assert log._turns == {}


def test_raise_does_so_at_once(logs: Logs) -> None:
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


def test_drop_does_so_at_once_and_counts_as_append_does(logs: Logs) -> None:
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


def test_who_waited_for_too_long_is_told_of_the_tailer(logs: Logs) -> None:
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
    assert log._turns == {}


def test_each_wait_is_noted_as_that_of_an_append(logs: Logs) -> None:
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


def test_a_tailer_that_stands_still_is_evicted(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
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
def test_closing_the_log_tells_each_who_is_held(logs: Logs, by: str) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    async def run() -> None:
        tasks: list[Any] = [*await held(log, 5), asyncio.create_task(log.append_many_async([b"1", b"2"]))]
        await asyncio.sleep(0)
        if by == "loop":
            log.close()
        else:
            await asyncio.to_thread(log.close)
        assert [type(outcome) for outcome in await outcomes_of(tasks)] == [ClosedError] * 6
        assert log._turns == {}

    asyncio.run(run())
    assert all_appended(logs.open(mode="r")) == filling


def test_a_loop_that_is_closed_meanwhile_leaves_nothing_behind(logs: Logs) -> None:
    log = logs.open()
    tailer = required(log)
    filling = fill(log)
    loop = asyncio.new_event_loop()
    complaints: list[Any] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    tasks = loop.run_until_complete(held(log, 5))
    gone = [weakref.ref(task) for task in tasks]
    assert len(log._turns) == 1
    loop.close()
    del tasks
    gc.collect()
    assert [task() for task in gone] == [None] * 5
    assert complaints == ["Task was destroyed but it is pending!"] * 5  # asyncio's own, and no other
    assert log._turns == {}
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
def test_what_is_wrong_is_refused_before_it_is_held(logs: Logs, wrong: Callable[[CommitLog], Any], expected: type[Exception]) -> None:
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


def test_what_is_held_is_what_it_was_when_it_was_given(logs: Logs) -> None:
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


# --- lists ---------------------------------------------------------------------------------------------------------------


def long_list() -> list[bytes]:
    """Of several batches, each of which goes past the limit."""
    return [value(number) for number in range(3000)]


@contextmanager
def held_halfway(log: CommitLog) -> Iterator[tuple[asyncio.AbstractEventLoop, asyncio.Task[npt.NDArray[np.int64]]]]:
    """A list of which the first batch is appended, and the rest is held."""
    with asyncio.Runner() as runner:

        async def begin() -> asyncio.Task[npt.NDArray[np.int64]]:
            task = asyncio.create_task(log.append_many_async(long_list()))
            await asyncio.sleep(0)
            assert not task.done()
            assert 0 < log.count() < 3000
            return task

        yield runner.get_loop(), runner.run(begin())


def test_a_list_that_is_held_halfway_goes_on_where_it_was_and_nobody_comes_between(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.open()
    tailer = required(log)
    no_thread_waits(log, monkeypatch)

    async def run(task: asyncio.Task[npt.NDArray[np.int64]]) -> None:
        behind = asyncio.create_task(log.append_async(b"behind it"))
        assert await read_on(tailer, 3001) == [*long_list(), b"behind it"]
        positions = await task
        assert positions.tolist() == [record.position for record in log.tailer()][:3000]
        assert await behind > positions[-1]

    with held_halfway(log) as (loop, task):
        loop.run_until_complete(run(task))
    assert log.stats().lag_latency.count >= 2


def test_a_list_that_is_cancelled_halfway_stays_as_far_as_it_came(logs: Logs) -> None:
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


def test_a_list_that_waits_halfway_for_too_long_stays_as_far_as_it_came(logs: Logs) -> None:
    log = logs.open(lag_timeout="20ms")
    required(log)
    with held_halfway(log) as (loop, task):
        there = log.count()
        with pytest.raises(TailerLagError):
            loop.run_until_complete(task)
    assert all_appended(log) == long_list()[:there]


# --- two processes -------------------------------------------------------------------------------------------------------


def test_a_reader_in_another_process_lets_appends_go(logs: Logs, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]) -> None:
    log = logs.open()
    told = log.cursors["required"]
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
    until(lambda: log.cursors["required"] != told)
    no_thread_waits(log, monkeypatch)

    async def run() -> None:
        tasks = [asyncio.create_task(log.append_async(value(number))) for number in range(300)]
        await asyncio.sleep(0)
        assert 20 < sum(task.done() for task in tasks) < 200  # until the writer heard of the tailer
        os.write(tell_held, b"!")
        await outcomes_of(tasks)

    asyncio.run(run())
    with os.fdopen(read_end, "rb") as stream:
        assert stream.read() == b"".join(value(number) for number in range(300))
    assert os.waitpid(child, 0)[1] == 0
    os.close(tell_held)


def test_a_reader_whose_process_died_holds_them_until_it_is_evicted(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open()
    told = log.cursors["required"]
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = required(reader)
            tailer.read()
            signal.pause()
    until(lambda: log.cursors["required"] != told)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while log.gate == 0:  # until the writer heard of the tailer
        log.append(b"before")
    there = log.count()

    async def run() -> None:
        tasks = await held(log, 5)
        assert log.evict_tailer("a")
        await outcomes_of(tasks)

    asyncio.run(run())
    assert all_appended(log)[there:] == [value(number) for number in range(5)]


def test_the_child_of_a_fork_has_turns_of_its_own(logs: Logs, in_child: Callable[[Callable[[], Any]], Any]) -> None:
    log = logs.open()
    required(log)
    filling = fill(log)

    def append() -> int:
        there = len(log._turns)
        log.evict_tailer("a")
        asyncio.run(log.append_async(b"child"))
        return there

    async def run() -> None:
        tasks = await held(log, 2)
        assert in_child(append) == 0
        await outcomes_of(tasks)

    asyncio.run(run())
    assert all_appended(log) == [*filling, b"child", value(0), value(1)]
