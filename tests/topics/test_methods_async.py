"""A method reader awaits the methods of its objects, one call after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import commitlog
from commitlog import CommitLog, method_reader, method_writer
from commitlog.errors import InUseError, InvalidOptionError
from commitlog.topics.history import History
from tests.topics.orders import records


class Shop(Protocol):
    def sold(self, number: int) -> None: ...


class Events(Protocol):
    async def packed(self, number: int) -> None: ...
    def logged(self, number: int) -> None: ...


class Service:
    """Awaits what a test gives it in each call."""

    def __init__(self, on_call: Callable[[int], Awaitable[object]]) -> None:
        self.calls: list[int] = []
        self.on_call = on_call

    async def sold(self, number: int) -> None:
        self.calls.append(number)
        await self.on_call(number)
        self.calls.append(-number)


class Found:
    """The calls of a log of events."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def packed(self, number: int) -> None:
        self.calls.append(("packed", number))

    def logged(self, number: int) -> None:
        self.calls.append(("logged", number))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[CommitLog, CommitLog]]:
    with (
        commitlog.open(tmp_path / "in", segment_size="64KiB") as source,
        commitlog.open(tmp_path / "out", segment_size="64KiB") as target,
    ):
        shop = method_writer(source, Shop)
        for number in (1, 2, 3):
            shop.sold(number)
        yield source, target


async def nothing(_: int) -> None:
    await asyncio.sleep(0)


def found(log: CommitLog) -> list[tuple[str, int]]:
    events = Found()
    asyncio.run(method_reader(log, events).run_async(timeout=0))
    return events.calls


def test_async_methods_are_awaited_in_order(logs: tuple[CommitLog, CommitLog]) -> None:
    service = Service(nothing)
    assert asyncio.run(method_reader(logs[0], service).run_async(timeout=0)) == 3
    assert service.calls == [1, -1, 2, -2, 3, -3]


def test_reader_without_loop_refuses_async_methods(logs: tuple[CommitLog, CommitLog]) -> None:
    reader = method_reader(logs[0], Service(nothing))
    calls: list[Callable[[], object]] = [reader.run, reader.read_one, reader.start]
    for call in calls:
        with pytest.raises(InvalidOptionError, match="sold is async"):
            call()
    assert asyncio.run(reader.run_async(timeout=0)) == 3


def test_stop_ends_a_coroutine_that_waits(logs: tuple[CommitLog, CommitLog]) -> None:
    async def main() -> int:
        entered = asyncio.Event()

        async def note(number: int) -> None:
            if number == 3:
                entered.set()

        reader = method_reader(logs[0], Service(note))
        running = asyncio.create_task(reader.run_async())
        await entered.wait()
        with pytest.raises(InUseError):
            await reader.run_async()
        reader.stop()
        return await running

    assert asyncio.run(main()) == 3


def test_cancelled_call_is_handled_again(logs: tuple[CommitLog, CommitLog]) -> None:
    async def cancelled(service: Service) -> None:
        entered = asyncio.Event()

        async def wait(number: int) -> None:
            if number == 2:
                entered.set()
                await asyncio.Event().wait()

        service.on_call = wait
        with method_reader(logs[0], service, name="service") as reader:
            running = asyncio.create_task(reader.run_async())
            await entered.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    first = Service(nothing)
    asyncio.run(cancelled(first))
    assert first.calls == [1, -1, 2]
    second = Service(nothing)
    with method_reader(logs[0], second, name="service") as reader:
        assert asyncio.run(reader.run_async(timeout=0)) == 2
    assert second.calls == [2, -2, 3, -3]


def test_error_and_unknown_handlers_are_awaited(logs: tuple[CommitLog, CommitLog]) -> None:
    seen: list[str] = []

    async def refuse(number: int) -> None:
        raise RuntimeError(str(number))

    async def note(*given: Any) -> None:
        await asyncio.sleep(0)
        seen.append(str(given[0]))

    reader = method_reader(logs[0], Service(refuse), on_error=note)
    assert asyncio.run(reader.run_async(timeout=0)) == 3
    reader = method_reader(logs[0], Found(), on_unknown=note)
    assert asyncio.run(reader.run_async(timeout=0)) == 3
    assert seen == ["1", "2", "3", "sold", "sold", "sold"]


@pytest.mark.parametrize("is_pipeline", [False, True], ids=["reader", "pipeline"])
def test_task_left_by_a_method_writes_without_history(
    logs: tuple[CommitLog, CommitLog], is_pipeline: bool
) -> None:
    source, target = logs
    out = method_writer(target, Events)
    left: list[asyncio.Task[None]] = []
    released = asyncio.Event()

    async def late(number: int) -> None:
        await released.wait()
        await out.packed(number)

    async def handle(number: int) -> None:
        if number == 3:  # the tasks of 1 and 2 write while 3 is handled
            released.set()
            await asyncio.gather(*left)
        else:
            left.append(asyncio.create_task(late(number)))
        await asyncio.gather(out.packed(10 * number))  # a task that is awaited
        out.logged(number)

    options: Any = {"after_last_written": target} if is_pipeline else {}
    asyncio.run(method_reader(source, Service(handle), **options).run_async(timeout=0))
    inputs = [each.position for each in records(source)][-3:]
    assert sorted(found(target)) == [
        *(("logged", number) for number in (1, 2, 3)),
        *(("packed", number) for number in (1, 2, 10, 20, 30)),
    ]
    catalog = {each.value for each in records(target)}
    with_history = [value for value in catalog if value[:2] == bytes([1, 1])]
    origins = [History.of_value(value).hops[-1].position for value in with_history]
    assert sorted(origins) == sorted(2 * inputs)


def test_async_pipeline_resumes_behind_its_outputs(logs: tuple[CommitLog, CommitLog]) -> None:
    source, target = logs
    out = method_writer(target, Events)

    async def handle(number: int) -> None:
        for _ in range(number):
            await out.packed(number)

    for expected in ([1, -1, 2, -2, 3, -3], []):
        service = Service(handle)
        reader = method_reader(source, service, after_last_written=target)
        asyncio.run(reader.run_async(timeout=0))
        assert service.calls == expected
    assert [number for _, number in found(target)] == [1, 2, 2, 3, 3, 3]
