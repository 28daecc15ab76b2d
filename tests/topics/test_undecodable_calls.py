"""Calls that cannot be decoded: a method reader raises, skips them, or gives them to `on_error`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

import commitlog
from commitlog import CommitLog, method_reader, method_writer, topics
from commitlog.errors import (
    InvalidOptionError,
    KeyUnavailableError,
    MessageValueError,
    UndecodableError,
)
from tests.topics.sealed import NEW, RING

OTHER = topics.KeyRing.of_text(NEW)


class Shop(Protocol):
    def sold(self, item: str, amount: int) -> None: ...


class Till:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def sold(self, item: str, amount: int) -> None:
        self.calls.append((item, amount))


class AsyncTill(Till):
    async def sold(self, item: str, amount: int) -> None:  # type: ignore[override]
        self.calls.append((item, amount))


def poison(log: CommitLog, kind: str) -> None:
    """Append a call that can be decoded, one that cannot, and one more."""
    shop = method_writer(log, Shop)
    shop.sold("a", 1)
    if kind == "wrong type":
        shop.sold("b", "two")  # type: ignore[arg-type]
    else:
        log.append(b"x", type=0xC000_0005)
    shop.sold("c", 3)


KINDS: Any = pytest.mark.parametrize("kind", ["wrong type", "foreign record"])


@KINDS
def test_undecodable_call_is_given_to_on_error(log: CommitLog, kind: str) -> None:
    poison(log, kind)
    till = Till()
    errors: list[Any] = []
    with method_reader(
        log, till, name="till", on_error=lambda error, record: errors.append((error, record))
    ) as reader:
        assert reader.run(timeout=0) == 3
        assert reader.undecodable == 1
    assert till.calls == [("a", 1), ("c", 3)]
    ((error, record),) = errors
    assert isinstance(error, UndecodableError)
    assert error.position == record.position


@KINDS
def test_undecodable_call_is_skipped_and_counted(log: CommitLog, kind: str) -> None:
    poison(log, kind)
    till = Till()
    with method_reader(log, till, on_undecodable="skip") as reader:
        assert reader.read_one()
        assert reader.read_one()
        assert not reader.read_one()
        assert reader.undecodable == 1
    assert till.calls == [("a", 1), ("c", 3)]


@KINDS
@pytest.mark.parametrize("on_undecodable", [None, "raise"])
def test_undecodable_call_stops_the_reader(
    log: CommitLog, kind: str, on_undecodable: Literal["raise"] | None
) -> None:
    poison(log, kind)
    on_error = None if on_undecodable is None else lambda *_: None
    with method_reader(log, Till(), on_error=on_error, on_undecodable=on_undecodable) as reader:
        for _ in range(2):
            with pytest.raises(UndecodableError, match="cannot be decoded"):
                reader.run(timeout=0)
        assert reader.undecodable == 0


@KINDS
def test_undecodable_call_is_skipped_in_an_event_loop(log: CommitLog, kind: str) -> None:
    poison(log, kind)
    till, seen = AsyncTill(), []

    async def on_error(error: Exception, _: object) -> None:
        await asyncio.sleep(0)
        seen.append(error)

    with method_reader(log, till, on_error=on_error) as reader:
        assert asyncio.run(reader.run_async(timeout=0)) == 3
    assert till.calls == [("a", 1), ("c", 3)]
    assert len(seen) == 1


def test_outputs_of_on_error_are_those_of_the_call(log: CommitLog, tmp_path: Path) -> None:
    poison(log, "wrong type")
    with commitlog.open(tmp_path / "out") as out:
        failed: commitlog.Topic[str] = commitlog.topic(out, str, name="failed")
        with method_reader(
            log,
            Till(),
            on_error=lambda error, _: failed.append(type(error).__name__),
            after_last_written=out,
        ) as reader:
            reader.run(timeout=0)
        tailer = failed.tailer()
        assert tailer.read() == "UndecodableError"
        assert tailer.history is not None
        bad = next(each for each in log.tailer() if b"two" in each.value)
        assert tailer.history.hops[-1].position == bad.position


def test_validating_writer_refuses_a_wrong_argument(log: CommitLog) -> None:
    shop = method_writer(log, Shop, validate=True)
    end = log.tail_position
    with pytest.raises(MessageValueError, match="readers could not decode it"):
        shop.sold("b", "two")  # type: ignore[arg-type]
    assert log.tail_position == end
    shop.sold("b", 2)


def test_argument_that_a_reader_would_see_changed_is_refused(log: CommitLog) -> None:
    class Open(Protocol):
        def sold(self, parts: Any) -> None: ...

    shop = method_writer(log, Open)
    with pytest.raises(MessageValueError, match="would be read as"):
        shop.sold((1, 2))
    shop.sold([1, 2])


@pytest.mark.parametrize("option", ["on_undecodable", "on_missing_key"])
def test_unknown_choice_is_refused(log: CommitLog, option: str) -> None:
    method_writer(log, Shop).sold("a", 1)
    with pytest.raises(InvalidOptionError, match=f"{option} must be"):
        method_reader(log, Till(), **{option: "ignore"})  # type: ignore[arg-type]
    topic: commitlog.Topic[int] = commitlog.topic(log, int, name="t")
    with pytest.raises(InvalidOptionError, match=f"{option} must be"):
        topic.tailer(**{option: "ignore"})  # type: ignore[call-overload]


def test_missing_key_is_an_explicit_choice(log: CommitLog) -> None:
    method_writer(log, Shop, keys=RING).sold("a", 1)
    till = Till()
    with (
        method_reader(log, till, keys=OTHER, on_undecodable="skip") as reader,
        pytest.raises(KeyUnavailableError),
    ):
        reader.run(timeout=0)
    with method_reader(log, till, keys=OTHER, on_missing_key="skip") as reader:
        assert reader.run(timeout=0) == 0
        assert reader.undecodable == 1
    with method_reader(log, till, keys=RING) as reader:
        assert reader.run(timeout=0) == 1
    assert till.calls == [("a", 1)]


def test_missing_key_of_a_tailer_is_an_explicit_choice(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", int, name="t", keys=RING) as topic:
        position = topic.append(5)
    with commitlog.topic(tmp_path / "log", int, name="t", keys=OTHER, mode="r") as topic:
        with pytest.raises(KeyUnavailableError):
            topic.tailer(on_undecodable="skip").read()
        tailer = topic.tailer(on_missing_key="skip")
        assert tailer.read() is None
        assert tailer.undecodable == 1
        raw = topic.tailer(on_missing_key="raw").read()
        assert raw is not None
        assert raw.position == position  # type: ignore[union-attr]
