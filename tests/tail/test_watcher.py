"""`async for` over `follow`: what it yields, when it ends, and the cost of many waiting
coroutines.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Options, Tailer, Tuning
from commitlog.errors import ClosedError, CorruptRecordError
from commitlog.log.parts import parts_of
from commitlog.tail.watcher import Watcher, watcher_of
from tests.multiprocess.readers import LIMIT_S
from tests.setups import BY_HAND, Logs, Setup

OTHER_USER = 65534
WRITER = """
import sys
import commitlog

with commitlog.open(sys.argv[1]) as log:
    for line in sys.stdin.buffer:
        log.append(line.strip())
"""
HOW = [
    ("mapped", "committed"),
    ("mapped", "appended"),
    ("mapped", "flushed"),
    ("anonymous", "committed"),
    ("anonymous", "appended"),
]
QUICK: dict[str, Any] = {
    "commit_interval": 0.001,
    "commit_least_pages": 0,
    "flush_interval": 0.001,
    "flush_least_pages": 0,
}


async def values(tailer: Tailer, count: int) -> list[bytes]:
    """Return the next `count` values, without a read past the last."""
    following = tailer.follow(timeout=LIMIT_S)
    return [(await anext(following)).value for _ in range(count)]


def waiting(log: CommitLog) -> int:
    return len(watcher_of(parts_of(log).engine)._waiting)


async def all_wait(log: CommitLog, count: int) -> None:
    """Wait until `count` coroutines wait for records."""
    deadline_s = time.monotonic() + LIMIT_S
    while waiting(log) != count:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0)


def watchers() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("commitlog watch")
    ]


def test_async_follow_yields_records_until_its_timeout(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append_many([b"%d" % number for number in range(5000)])

    async def read() -> list[bytes]:
        return [
            record.value async for record in log.tailer(visibility="appended").follow(timeout=0.005)
        ]

    assert asyncio.run(read()) == [b"%d" % number for number in range(5000)]


@pytest.mark.parametrize(("backing", "visibility"), HOW)
def test_async_follow_waits_for_appends(logs: Logs, backing: Any, visibility: Any) -> None:
    log = logs.open_as(Setup("async", backing), **QUICK)
    tailer = log.tailer(visibility=visibility)

    async def read() -> None:
        for number in range(20):
            task = asyncio.create_task(values(tailer, 1))
            await all_wait(log, 1)
            log.append(b"%d" % number)
            assert await task == [b"%d" % number]

    asyncio.run(read())


def test_thousand_waiting_coroutines_share_one_thread(logs: Logs) -> None:
    log = logs.open()
    tailers = [log.tailer() for _ in range(1000)]

    async def read() -> None:
        tasks = [asyncio.create_task(values(tailer, 2)) for tailer in tailers]
        await all_wait(log, 1000)
        assert len(watchers()) == 1
        log.append(b"a")
        log.append(b"b")
        assert await asyncio.gather(*tasks) == [[b"a", b"b"]] * 1000
        assert waiting(log) == 0

    asyncio.run(read())
    log.close()
    assert watchers() == []


def test_async_follow_continues_across_rolls(logs: Logs) -> None:
    log = logs.open(mode="a")
    reader = logs.open(mode="r")

    async def read() -> None:
        tasks = [asyncio.create_task(values(handle.tailer(), 400)) for handle in (log, reader)]
        for number in range(400):
            log.append(b"%04d" % number + bytes(2000))
            await asyncio.sleep(0)
        for task in tasks:
            assert [value[:4] for value in await task] == [
                b"%04d" % number for number in range(400)
            ]

    asyncio.run(read())
    assert log.stats().rolls > 5


def test_async_follow_yields_to_the_loop_between_records(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"x"] * 1000)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read() -> int:
        others = asyncio.create_task(count_turns())
        total = 0
        async for _ in log.tailer().follow(timeout=0):
            total += 1
        others.cancel()
        return total

    assert asyncio.run(read()) == 1000
    assert turns > 10


def test_cancelled_wait_keeps_the_position(logs: Logs) -> None:
    log = logs.open()
    log.append(b"first")
    tailer = log.tailer()

    async def read() -> None:
        assert await values(tailer, 1) == [b"first"]
        place = tailer.position
        task = asyncio.create_task(values(tailer, 1))
        await all_wait(log, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiting(log) == 0
        assert tailer.position == place
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(values(tailer, 1), 0.002)
        assert tailer.position == place
        log.append(b"second")
        assert await values(tailer, 1) == [b"second"]

    asyncio.run(read())


def test_cancelled_at_any_await_no_record_is_lost_or_doubled(logs: Logs) -> None:
    log = logs.open()
    tailer = log.tailer()
    got: list[bytes] = []
    note = got.append

    async def read_on() -> None:
        async for record in tailer.follow():
            note(record.value)

    async def read() -> None:
        for number in range(300):
            task = asyncio.create_task(read_on())
            for _ in range(number % 7):
                await asyncio.sleep(0)
            log.append(b"%d" % number)
            for _ in range(number % 3):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        got.extend(await values(tailer, 300 - len(got)))

    asyncio.run(read())
    assert got == [b"%d" % number for number in range(300)]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_close_ends_every_async_follow(logs: Logs, mode: str) -> None:
    logs.open().append(b"x")
    log = logs.open(mode=mode)

    async def read() -> None:
        async def all_of(tailer: Tailer) -> list[bytes]:
            return [record.value async for record in tailer.follow()]

        tasks = [asyncio.create_task(all_of(log.tailer())) for _ in range(3)]
        await all_wait(log, 3)
        log.close()
        assert await asyncio.gather(*tasks) == [[b"x"]] * 3
        assert watchers() == []

    asyncio.run(read())


def test_async_follow_of_a_closed_log_ends_at_once(logs: Logs) -> None:
    log = logs.open()
    tailer = log.tailer()
    log.close()

    async def read() -> list[Any]:
        return [record async for record in tailer.follow()]

    assert asyncio.run(read()) == []
    assert watchers() == []


def test_watcher_of_a_closed_log_starts_no_thread(logs: Logs) -> None:
    log = logs.open()
    tailer = log.tailer(start="end")
    log.close()
    asyncio.run(asyncio.wait_for(watcher_of(parts_of(log).engine).news(tailer, None), LIMIT_S))
    assert watchers() == []


def test_async_follow_awaits_claims_and_rolls_back_dead_ones(logs: Logs) -> None:
    log, impatient = logs.open(claim_timeout=60), logs.open("impatient", claim_timeout=0.02)

    async def read() -> None:
        with log.claim(1) as claim:
            task = asyncio.create_task(values(log.tailer(), 1))
            await asyncio.sleep(0)
            claim.buffer[:] = b"c"
        assert await task == [b"c"]
        with ThreadPoolExecutor(1) as pool:
            stuck = pool.submit(impatient.claim, 16).result()
        impatient.append(b"behind it")
        assert await values(impatient.tailer(), 1) == [b"behind it"]
        stuck.__exit__(ZeroDivisionError, None, None)

    asyncio.run(read())


def test_several_loops_follow_one_log(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open()
    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(lambda: asyncio.run(values(log.tailer(), 50))) for _ in range(3)]
        until(lambda: waiting(log) == 3)
        for number in range(50):
            log.append(b"%d" % number)
        for task in tasks:
            assert task.result() == [b"%d" % number for number in range(50)]


def test_loop_closed_while_a_reader_waits_leaves_log_usable(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open()
    loop = asyncio.new_event_loop()
    # the loop would report its pending tasks
    loop.set_exception_handler(lambda loop, context: None)

    async def begin() -> asyncio.Task[list[bytes]]:
        task = asyncio.create_task(values(log.tailer(), 1))
        await all_wait(log, 1)
        return task

    task = loop.run_until_complete(begin())
    loop.close()
    log.append(b"x")
    until(lambda: waiting(log) == 0)
    assert asyncio.run(values(log.tailer(), 1)) == [b"x"]
    del task
    gc.collect()


def test_coroutines_poll_for_records_after_the_watcher_ended(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()

    def fail(watcher: Watcher, nap_s: float) -> bool:
        raise MemoryError

    monkeypatch.setattr(Watcher, "_round", fail)

    async def read() -> None:
        task = asyncio.create_task(values(log.tailer(), 1))
        await asyncio.sleep(0)
        assert watcher_of(parts_of(log).engine).join(LIMIT_S)
        log.append(b"x")
        assert await task == [b"x"]

    asyncio.run(read())


def test_reader_without_cursors_adopts_the_first_writers(logs: Logs, tmp_path: Path) -> None:
    logs.open().close()
    (tmp_path / "log" / "cursors").unlink()
    reader = logs.open(mode="r")

    async def read() -> None:
        task = asyncio.create_task(values(reader.tailer(), 2))
        await all_wait(reader, 1)
        log = logs.open()
        log.append(b"a")
        await asyncio.sleep(0)
        log.append(b"b")
        assert await task == [b"a", b"b"]

    asyncio.run(read())


def test_damaged_record_raises_in_async_follow(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    position = log.append(b"damaged")
    log.append(b"whole")
    log.close()
    file = tmp_path / "log" / f"{0:020d}.seg"
    content = bytearray(file.read_bytes())
    content[position + 16] ^= 1
    file.write_bytes(content)
    log = logs.open(mode="r")

    async def read() -> None:
        with pytest.raises(CorruptRecordError):
            await values(log.tailer(), 1)
        assert await values(log.tailer(on_damage="skip"), 1) == [b"whole"]

    asyncio.run(read())


def test_follow_turned_backward_reads_back_and_ends(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    tailer = log.tailer()

    async def read() -> list[bytes]:
        following = tailer.follow()
        got = [(await anext(following)).value]
        tailer.direction = "backward"
        got += [record.value async for record in following]
        return got

    assert asyncio.run(read()) == [b"x", b"x"]


def test_replay_pause_leaves_loop_free_and_can_be_cancelled(
    logs: Logs,
) -> None:
    log = logs.open()
    for stamp in (0, 1_000_000, 3_600_000_000_000):
        log.append(b"%d" % stamp, timestamp_ns=stamp)
    tailer = log.tailer()

    async def read() -> None:
        following = tailer.follow(speed=1)
        assert [(await anext(following)).value for _ in range(2)] == [b"0", b"1000000"]
        place = tailer.position
        task = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tailer.position == place
        task = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        log.close()
        with pytest.raises(StopAsyncIteration):
            await task

    asyncio.run(read())
    with pytest.raises(ClosedError):
        log.append(b"")


def test_forked_child_has_its_own_watcher(
    logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open(**BY_HAND)
    log.append(b"parent")
    assert asyncio.run(values(log.tailer(), 1)) == [b"parent"]

    def read() -> list[bytes]:
        async def both() -> list[bytes]:
            task = asyncio.create_task(values(log.tailer(), 2))
            await all_wait(log, 1)
            log.append(b"child")
            return await task

        return asyncio.run(both())

    assert in_child(read) == [b"parent", b"child"]


def test_named_tailer_saves_its_place_on_asking_for_the_next(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"%d" % number for number in range(200)])

    async def read() -> None:
        with log.tailer("name") as tailer:
            async for record in tailer.follow(timeout=LIMIT_S):
                if record.value == b"2":
                    break
        # Ended by a break: the last record is read again.
        with log.tailer("name") as tailer:
            following = tailer.follow(timeout=LIMIT_S)
            assert (await anext(following)).value == b"2"
            assert [(await anext(following)).value for _ in range(197)][-1] == b"199"
            task = asyncio.ensure_future(anext(following))
            await all_wait(log, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del following, task
        # Cancelled during a wait: the record before is completed.
        log.append(b"new")
        with log.tailer("name") as tailer:
            assert await values(tailer, 1) == [b"new"]

    asyncio.run(read())


def test_cancel_before_a_loop_turn_completes_the_last_record(
    logs: Logs,
) -> None:
    log = logs.open()
    log.append_many([b"%d" % number for number in range(200)])

    async def read() -> None:
        with log.tailer("name") as tailer:
            following = tailer.follow(timeout=LIMIT_S)
            for _ in range(64):
                await anext(following)
            task = asyncio.ensure_future(anext(following))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del following, task
        with log.tailer("name") as tailer:
            assert await values(tailer, 1) == [b"64"]

    asyncio.run(read())


def test_append_of_another_process_wakes_coroutines(logs: Logs, tmp_path: Path) -> None:
    log = logs.open(mode="a")
    reader = logs.open(mode="r")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "log")], stdin=subprocess.PIPE, bufsize=0
    )
    assert writer.stdin is not None
    pipe = writer.stdin

    async def read() -> None:
        tailers = [handle.tailer() for handle in (log, reader)]
        for number in range(20):
            tasks = [asyncio.create_task(values(tailer, 1)) for tailer in tailers]
            await all_wait(log, 1)
            await all_wait(reader, 1)
            pipe.write(b"%d\n" % number)
            assert await asyncio.gather(*tasks) == [[b"%d" % number]] * 2

    with writer:
        asyncio.run(read())


def test_reader_without_write_permission_polls_by_itself(
    in_child: Callable[[Callable[[], Any]], Any],
) -> None:
    """Run as an ordinary user, which cannot announce itself to the writers and still wakes up."""
    directory = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    directory.chmod(0o755)
    # Keep the set of files constant during the test.
    log = commitlog.open(directory / "log", "a", Options(tuning=Tuning(allocate_ahead=0)))
    for path in (directory / "log").iterdir():
        path.chmod(0o444)
    (directory / "log").chmod(0o555)
    told, ready = os.pipe()
    appender = threading.Thread(target=lambda: (os.read(told, 1), log.append(b"came")))

    def use() -> tuple[bool, list[bytes]]:
        if os.geteuid() == 0:
            os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)

        async def read(reader: CommitLog) -> list[bytes]:
            task = asyncio.create_task(values(reader.tailer(), 1))
            await all_wait(reader, 1)
            os.write(ready, b"x")
            return await task

        with commitlog.open(directory / "log", "r", Options()) as reader:
            return parts_of(reader).engine.cursors.writable, asyncio.run(read(reader))

    appender.start()
    try:
        outcome = in_child(use)
    finally:
        os.write(ready, b"x")
        appender.join()
        log.close()
        shutil.rmtree(directory)
        os.close(told)
        os.close(ready)
    assert outcome == (False, [b"came"])
