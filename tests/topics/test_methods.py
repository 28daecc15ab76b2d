"""Calls of a method writer reach the methods of the reader's objects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from commitlog import CommitLog, method_reader, method_writer
from commitlog.errors import InUseError, InvalidOptionError, MessageError, SchemaError


class Shop(Protocol):
    def sold(self, item: str, amount: int, *, note: str = "none") -> None: ...
    async def opened(self, hour: int) -> None: ...


class Till:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.on_call: Callable[[], object] = list

    def sold(self, item: str, amount: int, *, note: str = "none") -> None:
        self.calls.append((item, amount, note))
        self.on_call()
        if note == "refused":
            raise RuntimeError(item)


class Doors:
    def __init__(self) -> None:
        self.hours: list[int] = []

    def opened(self, hour: int) -> None:
        self.hours.append(hour)


class LaterTill:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def sold(self, amount: float, item: str, currency: str = "EUR") -> None:
        self.calls.append((amount, item, currency))


class OtherTill:
    def sold(self, item: int) -> None: ...


class Answering:
    def asked(self) -> int:
        return 1


def test_calls_reach_several_objects_in_order(log: CommitLog) -> None:
    shop, till, doors = method_writer(log, Shop), Till(), Doors()
    shop.sold("lamp", 3)
    asyncio.run(shop.opened(8))
    shop.sold(amount=1, item="desk", note="gift")
    assert method_reader(log, till, doors).run(timeout=0) == 3
    assert till.calls == [("lamp", 3, "none"), ("desk", 1, "gift")]
    assert doors.hours == [8]


def test_calls_in_many_segments_are_handled(log: CommitLog) -> None:
    shop, till = method_writer(log, Shop), Till()
    for number in range(5000):
        shop.sold("lamp", number)
    assert method_reader(log, till).run(timeout=0) == 5000
    assert [amount for _, amount, _ in till.calls] == list(range(5000))


def test_unknown_call_is_counted_or_handed_over(log: CommitLog) -> None:
    method_writer(log, Shop).sold("lamp", 3)
    seen: list[Any] = []
    reader = method_reader(log, Doors(), on_unknown=lambda *call: seen.append(call))
    silent = method_reader(log, Doors())
    assert reader.read_one()
    assert silent.read_one()
    assert (reader.unknown, silent.unknown) == (1, 1)
    assert seen == [("sold", {"item": "lamp", "amount": 3, "note": "none"})]


def test_call_that_raises_is_repeated_under_a_name(log: CommitLog) -> None:
    shop = method_writer(log, Shop)
    shop.sold("lamp", 1)
    shop.sold("desk", 2, note="refused")
    for _ in range(2):
        till = Till()
        with method_reader(log, till, name="till") as reader, pytest.raises(RuntimeError):
            reader.run(timeout=0)
        assert till.calls[-1] == ("desk", 2, "refused")
    assert till.calls == [("desk", 2, "refused")]


def test_error_handler_lets_the_reader_go_on(log: CommitLog) -> None:
    shop, errors = method_writer(log, Shop), []
    shop.sold("desk", 2, note="refused")
    shop.sold("lamp", 1)
    reader = method_reader(log, Till(), on_error=lambda error, _: errors.append(str(error)))
    assert reader.run(timeout=0) == 2
    assert errors == ["desk"]


def test_changed_signature_reads_old_calls(log: CommitLog) -> None:
    method_writer(log, Shop).sold("lamp", 3)
    till = LaterTill()
    assert method_reader(log, till).read_one()
    assert till.calls == [(3.0, "lamp", "EUR")]


def test_incompatible_signature_is_refused_with_field(log: CommitLog) -> None:
    method_writer(log, Shop).sold("lamp", 3)
    for make in (method_writer, method_reader):
        given: Any = OtherTill if make is method_writer else OtherTill()
        with pytest.raises(SchemaError) as caught:
            make(log, given)
        assert caught.value.field == "$.item"


def test_method_that_returns_a_value_is_refused(log: CommitLog) -> None:
    with pytest.raises(MessageError, match=r"Answering.asked must return None"):
        method_writer(log, Answering)


def test_two_objects_with_one_method_are_refused(log: CommitLog) -> None:
    with pytest.raises(MessageError, match="two objects"):
        method_reader(log, Till(), LaterTill())
    with pytest.raises(InvalidOptionError, match="at least one object"):
        method_reader(log)


def test_stop_ends_a_waiting_reader(log: CommitLog) -> None:
    reader = method_reader(log, Till())
    thread = threading.Thread(target=reader.run)
    thread.start()
    reader.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_stop_in_a_call_counts_the_call_as_handled(log: CommitLog) -> None:
    shop = method_writer(log, Shop)
    for amount in range(3):
        shop.sold("lamp", amount)
    till = Till()
    with method_reader(log, till, name="till") as reader:
        till.on_call = reader.stop
        assert reader.run() == 1
    with method_reader(log, till, name="till") as reader:
        assert reader.run(timeout=0) == 2
    assert [amount for _, amount, _ in till.calls] == [0, 1, 2]


def test_reader_without_a_name_stays_before_a_failed_call(log: CommitLog) -> None:
    shop = method_writer(log, Shop)
    shop.sold("lamp", 1)
    shop.sold("desk", 2, note="refused")
    till = Till()
    reader = method_reader(log, till)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            reader.run(timeout=0)
    assert [amount for _, amount, _ in till.calls] == [1, 2, 2]


def test_records_that_are_no_calls_prolong_a_run(log: CommitLog) -> None:
    till = Till()
    reader = method_reader(log, till)

    def append() -> None:
        for _ in range(8):  # twice as long as the run waits without a record
            threading.Event().wait(0.15)
            log.append(b"no call")
        method_writer(log, Shop).sold("lamp", 2)

    appending = threading.Thread(target=append)
    appending.start()
    handled = reader.run(timeout=0.6)
    appending.join()
    assert (handled, till.calls) == (1, [("lamp", 2, "none")])


def test_run_after_stop_handles_calls_again(log: CommitLog) -> None:
    shop, till = method_writer(log, Shop), Till()
    reader = method_reader(log, till)
    shop.sold("lamp", 1)
    reader.stop()
    assert reader.run(timeout=0) == 0
    assert reader.run(timeout=0) == 1


def test_started_reader_handles_until_it_is_stopped(log: CommitLog) -> None:
    shop, till = method_writer(log, Shop), Till()
    handled = threading.Event()
    till.on_call = handled.set
    with method_reader(log, till) as reader:
        for amount in range(2):
            reader.start()
            assert reader.wait(0) is None
            with pytest.raises(InUseError, match="is running"):
                reader.run(timeout=0)
            shop.sold("lamp", amount)
            assert handled.wait(30)
            handled.clear()
            reader.stop()
            assert reader.wait() == 1
        assert reader.wait() == 0
    assert [amount for _, amount, _ in till.calls] == [0, 1]


@pytest.mark.parametrize("end", ["wait", "close"])
def test_error_of_a_started_reader_is_raised_once(log: CommitLog, end: str) -> None:
    shop, till = method_writer(log, Shop), Till()
    shop.sold("desk", 2, note="refused")
    reader = method_reader(log, till, name="till").start()
    with pytest.raises(RuntimeError, match="desk"):
        getattr(reader, end)()
    reader.close()
    with method_reader(log, till, name="till") as again, pytest.raises(RuntimeError):
        again.read_one()


def test_method_that_waits_for_its_reader_is_refused(log: CommitLog) -> None:
    shop, till = method_writer(log, Shop), Till()
    shop.sold("lamp", 1)
    reader = method_reader(log, till)
    till.on_call = reader.wait
    reader.start()
    with pytest.raises(InUseError, match="call stop"):
        reader.wait()
