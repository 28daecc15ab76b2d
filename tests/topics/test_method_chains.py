"""A chain of method calls is one message, which reaches the same chain of the reader's objects."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Protocol, Self

import pytest
from click.testing import CliRunner

from commitlog import CommitLog, method_reader, method_writer
from commitlog.errors import MessageError
from commitlog.tools.cli.commands.call import command as call_command


class Branch(Protocol):
    def sold(self, item: str, amount: int = 1, *, note: str = "none") -> None: ...
    async def opened(self, hour: int) -> None: ...


class Floor(Protocol):
    def on(self, floor: int, *, side: str = "left") -> Branch: ...


class Shop(Protocol):
    def to(self, town: str) -> Branch: ...
    def at(self, street: str) -> Floor: ...
    def closed(self) -> None: ...


class TillBranch:
    def __init__(self, calls: list[Any], *before: Any) -> None:
        self.calls = calls
        self.before = before

    def sold(self, item: str, amount: int = 1, *, note: str = "none") -> None:
        self.calls.append((*self.before, item, amount, note))

    async def opened(self, hour: int) -> None:
        self.calls.append((*self.before, hour))


class TillFloor:
    def __init__(self, calls: list[Any], street: str) -> None:
        self.calls = calls
        self.street = street

    def on(self, floor: int, *, side: str = "left") -> TillBranch:
        return TillBranch(self.calls, self.street, floor, side)


class Till:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def to(self, town: str) -> TillBranch:
        return TillBranch(self.calls, town)

    def at(self, street: str) -> TillFloor:
        return TillFloor(self.calls, street)

    def closed(self) -> None:
        self.calls.append("closed")


class Builder(Protocol):
    def named(self, name: str) -> Self: ...
    def sized(self, size: int) -> Self: ...
    def build(self) -> None: ...


class AsyncStep(Protocol):
    async def to(self, town: str) -> Branch: ...


class SameNames(Protocol):
    def to(self, item: str) -> Branch: ...


class Many:
    """Interfaces that return each other have as many chains as orders of their methods."""

    def a(self) -> Self: ...  # type: ignore[empty-body]
    def b(self) -> Self: ...  # type: ignore[empty-body]
    def c(self) -> Self: ...  # type: ignore[empty-body]
    def d(self) -> Self: ...  # type: ignore[empty-body]
    def e(self) -> Self: ...  # type: ignore[empty-body]
    def f(self) -> Self: ...  # type: ignore[empty-body]
    def end(self) -> None: ...


def test_chain_reaches_the_chain_of_an_object(log: CommitLog) -> None:
    shop, till = method_writer(log, Shop), Till()
    shop.to("berlin").sold("lamp", 3)
    shop.at("main street").on(2, side="right").sold("desk", note="gift")
    shop.closed()
    asyncio.run(shop.to("paris").opened(8))
    assert asyncio.run(method_reader(log, till).run_async(timeout=0)) == 4
    assert till.calls == [
        ("berlin", "lamp", 3, "none"),
        ("main street", 2, "right", "desk", 1, "gift"),
        "closed",
        ("paris", 8),
    ]


def test_chain_is_one_message_of_one_topic(log: CommitLog) -> None:
    shop = method_writer(log, Shop)
    shop.to("berlin").sold("lamp", 3)
    before = log.count()
    berlin = shop.to("berlin")
    assert log.count() == before
    berlin.sold("desk")
    berlin.sold("chair")
    assert log.count() == before + 2
    seen: list[Any] = []

    class Nothing:
        def other(self) -> None: ...

    reader = method_reader(log, Nothing(), on_unknown=lambda *call: seen.append(call))
    reader.run(timeout=0)
    arguments = {"town": "berlin", "item": "chair", "amount": 1, "note": "none"}
    assert seen[-1] == ("to.sold", arguments)
    assert len(seen) == 3


def test_chain_keeps_the_signatures_of_its_steps(log: CommitLog) -> None:
    shop = method_writer(log, Shop)
    assert inspect.signature(type(shop).to) == inspect.signature(Shop.to)
    with pytest.raises(TypeError, match="town"):
        shop.to()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        shop.to("berlin").sold("lamp", colour="red")  # type: ignore[call-arg]
    assert log.count() == 0


def test_interface_that_returns_itself_takes_each_step_once(log: CommitLog) -> None:
    builder = method_writer(log, Builder)
    builder.sized(3).named("lamp").build()
    builder.build()
    with pytest.raises(AttributeError, match="named"):
        builder.named("lamp").named("desk")
    calls: list[Any] = []

    class Building:
        def named(self, name: str) -> Self:
            calls.append(name)
            return self

        def sized(self, size: int) -> Self:
            calls.append(size)
            return self

        def build(self) -> None:
            calls.append("built")

    method_reader(log, Building()).run(timeout=0)
    assert calls == [3, "lamp", "built", "built"]


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        (AsyncStep, "only the last method of a chain can be async"),
        (SameNames, "two methods of a chain have 'item'"),
        (Many, "more than 1000 chains"),
    ],
)
def test_chain_that_has_no_schema_is_refused(
    log: CommitLog, interface: type[Any], message: str
) -> None:
    with pytest.raises(MessageError, match=message):
        method_writer(log, interface)
    assert log.count() == 0


def test_shell_appends_a_call_of_a_chain(log: CommitLog) -> None:
    method_writer(log, Shop).to("berlin").sold("lamp", 3)
    arguments = [str(log.path), "to.sold", '"paris"', '"desk"', "amount=2"]
    assert CliRunner().invoke(call_command, arguments).exit_code == 0
    till = Till()
    asyncio.run(method_reader(log, till).run_async(timeout=0))
    assert till.calls[-1] == ("paris", "desk", 2, "none")
