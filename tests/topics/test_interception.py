"""An interceptor of a method writer or reader sees, changes or leaves out calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from commitlog import CommitLog, method_reader, method_writer
from commitlog.errors import InvalidOptionError, MessageError


class Shop(Protocol):
    def sold(self, item: str, amount: int = 1) -> None: ...
    async def opened(self, hour: int) -> None: ...


class Doors(Protocol):
    async def opened(self, hour: int) -> None: ...


class Till:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def sold(self, item: str, amount: int = 1) -> None:
        self.calls.append((item, amount))


class AsyncTill(Till):
    async def opened(self, hour: int) -> None:
        await asyncio.sleep(0)
        self.calls.append(hour)


Proceed = Callable[[dict[str, Any]], Any]


def doubling(name: str, arguments: dict[str, Any], proceed: Proceed) -> Any:
    """Double amounts and hours, and leave out chairs."""
    if arguments.get("item") == "chair":
        return None
    changed = {key: each * 2 if isinstance(each, int) else each for key, each in arguments.items()}
    return proceed(changed)


def write(log: CommitLog, **options: Any) -> None:
    shop = method_writer(log, Shop, **options)
    shop.sold("lamp", 3)
    shop.sold("chair")
    shop.sold("desk")


async def read(log: CommitLog, **options: Any) -> list[Any]:
    till = AsyncTill()
    await method_reader(log, till, **options).run_async(timeout=0)
    return till.calls


def test_writer_appends_only_calls_its_interceptor_passes(log: CommitLog) -> None:
    async def write_all() -> list[Any]:
        write(log, intercept=doubling)
        await method_writer(log, Shop, intercept=doubling).opened(4)
        return await read(log)

    assert asyncio.run(write_all()) == [("lamp", 6), ("desk", 2), 8]


def test_reader_makes_only_calls_its_interceptor_passes(log: CommitLog) -> None:
    async def read_all() -> list[Any]:
        write(log)
        await method_writer(log, Shop).opened(4)
        return await read(log, intercept=doubling)

    assert asyncio.run(read_all()) == [("lamp", 6), ("desk", 2), 8]


def test_call_left_out_counts_as_handled(log: CommitLog) -> None:
    write(log)
    till = Till()
    reader = method_reader(log, till, name="till", intercept=doubling)
    assert reader.run(timeout=0) == 3
    assert len(till.calls) == 2
    reader.close()
    assert method_reader(log, till, name="till").run(timeout=0) == 0


def test_async_interceptor_awaits_the_call(log: CommitLog) -> None:
    seen: list[str] = []

    async def around(name: str, arguments: dict[str, Any], proceed: Proceed) -> None:
        seen.append(f"before {name}")
        result = proceed(arguments)
        if result is not None:
            await result
        seen.append(f"behind {name}")

    async def read_all() -> list[Any]:
        await method_writer(log, Doors, intercept=around).opened(4)
        method_writer(log, Shop).sold("lamp")
        return await read(log, intercept=around)

    assert asyncio.run(read_all()) == [4, ("lamp", 1)]
    assert seen == [
        f"{when} {name}" for name in ("opened", "opened", "sold") for when in ("before", "behind")
    ]


def test_async_interceptor_of_plain_calls_is_refused(log: CommitLog) -> None:
    async def skip(name: str, arguments: dict[str, Any], proceed: Proceed) -> None: ...

    with pytest.raises(InvalidOptionError, match="sold is not async"):
        method_writer(log, Shop, intercept=skip)
    write(log)
    reader = method_reader(log, Till(), intercept=skip)
    with pytest.raises(InvalidOptionError, match="await run_async"):
        reader.run(timeout=0)


def test_error_of_an_interceptor_is_that_of_the_method(log: CommitLog) -> None:
    def refusing(name: str, arguments: dict[str, Any], proceed: Proceed) -> None:
        raise RuntimeError(name)

    with pytest.raises(RuntimeError, match="sold"):
        write(log, intercept=refusing)
    assert log.count() == 0
    write(log)
    till, errors = Till(), []
    reader = method_reader(
        log, till, intercept=refusing, on_error=lambda error, _: errors.append(str(error))
    )
    assert reader.run(timeout=0) == 3
    assert errors == ["sold"] * 3


@pytest.mark.parametrize(
    "wrong", [{"item": "lamp"}, {"item": "lamp", "amount": 1, "colour": "red"}]
)
def test_interceptor_cannot_change_the_names_of_arguments(
    log: CommitLog, wrong: dict[str, Any]
) -> None:
    shop = method_writer(log, Shop, intercept=lambda name, arguments, proceed: proceed(wrong))
    with pytest.raises(MessageError, match=r"sold has the arguments \['item', 'amount'\]"):
        shop.sold("lamp")
    assert log.count() == 0
