"""A method reader with `after_last_written` resumes behind the last call whose outputs exist."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

import commitlog
from commitlog import CommitLog, method_reader, method_writer, topics
from commitlog.errors import InvalidOptionError, LogFailedError, PositionError
from commitlog.topics.schema import SCHEMA_TYPE
from tests.copies import copy_log
from tests.topics.orders import Refund, records


class Shop(Protocol):
    def sold(self, number: int) -> None: ...


class Events(Protocol):
    def packed(self, number: int, part: int) -> None: ...
    async def billed(self, number: int) -> None: ...


class Service:
    """Writes as many events as a call says; refuses calls on demand."""

    def __init__(self, out: Any, refunds: topics.Topic[Refund] | None = None) -> None:
        self.out = out
        self.refunds = refunds
        self.calls: list[int] = []
        self.refused: int | None = None

    def sold(self, number: int) -> None:
        self.calls.append(number)
        for part in range(number % 3):
            self.out.packed(number, part)
        if self.refunds is not None:
            self.refunds.append_many([Refund(number), Refund(-number)], keys=[b"a", None])
            asyncio.run(self.refunds.append_async(Refund(0)))
        if number == self.refused:
            raise RuntimeError("refused")


class Collector:
    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def packed(self, number: int, part: int) -> None:
        self.found.append((number, part))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[CommitLog, CommitLog]]:
    with (
        commitlog.open(tmp_path / "in", segment_size="64KiB") as source,
        commitlog.open(tmp_path / "out", segment_size="64KiB") as target,
    ):
        yield source, target


def sell(log: CommitLog, *numbers: int) -> None:
    shop = method_writer(log, Shop)
    for number in numbers:
        shop.sold(number)


def handled(source: CommitLog, target: CommitLog, **options: Any) -> list[int]:
    """Let a new service handle what is there; return the calls that it handled."""
    service = Service(method_writer(target, Events))
    with method_reader(source, service, after_last_written=target, **options) as reader:
        reader.run(timeout=0)
    return service.calls


def collected(log: CommitLog) -> list[tuple[int, int]]:
    collector = Collector()
    method_reader(log, collector).run(timeout=0)
    return collector.found


def test_new_reader_begins_behind_the_last_output(logs: tuple[CommitLog, CommitLog]) -> None:
    sell(logs[0], 1, 2, 3)
    assert handled(*logs) == [1, 2, 3]
    sell(logs[0], 4)
    # Call 3 has no output, so nothing says that it was handled.
    assert handled(*logs) == [3, 4]
    assert collected(logs[1]) == [(1, 0), (2, 0), (2, 1), (4, 0)]


def test_last_output_takes_precedence_over_a_saved_position(
    logs: tuple[CommitLog, CommitLog],
) -> None:
    sell(logs[0], 1, 2, 4)
    assert handled(*logs, name="service") == [1, 2, 4]
    logs[0].reset_tailer("service", "first")
    assert handled(*logs, name="service") == []
    logs[0].reset_tailer("service", "end")
    sell(logs[0], 5)
    assert handled(*logs, name="service") == [5]


def test_outputs_of_another_source_are_ignored(
    logs: tuple[CommitLog, CommitLog], tmp_path: Path
) -> None:
    with commitlog.open(tmp_path / "other") as other:
        for log in (other, logs[0]):
            sell(log, 1, 2)
            assert handled(log, logs[1]) == [1, 2]
        sell(other, 4)
        assert handled(other, logs[1]) == [4]


def test_method_that_raises_leaves_no_output(logs: tuple[CommitLog, CommitLog]) -> None:
    source, target = logs
    sell(source, 1, 2)
    service = Service(method_writer(target, Events))
    service.refused = 2
    reader = method_reader(source, service, after_last_written=target)
    with pytest.raises(RuntimeError):
        reader.run(timeout=0)
    assert collected(target) == [(1, 0)]
    service.refused = None
    assert reader.run(timeout=0) == 1
    assert collected(target) == [(1, 0), (2, 0), (2, 1)]


def test_outputs_of_on_error_replace_those_of_the_method(
    logs: tuple[CommitLog, CommitLog],
) -> None:
    source, target = logs
    sell(source, 2, 1)
    out = method_writer(target, Events)
    service = Service(out)
    service.refused = 2
    reader = method_reader(
        source, service, after_last_written=target, on_error=lambda *_: out.packed(-1, 0)
    )
    assert reader.run(timeout=0) == 2
    assert collected(target) == [(-1, 0), (1, 0)]


def test_outputs_of_several_topics_are_one_list(logs: tuple[CommitLog, CommitLog]) -> None:
    source, target = logs
    sell(source, 2)
    refunds = commitlog.topic(target, Refund)
    service = Service(method_writer(target, Events), refunds)
    assert method_reader(source, service, after_last_written=target).read_one()
    tailer = refunds.tailer()
    found = [(message.order, tailer.history) for message in tailer]
    assert [order for order, _ in found] == [2, -2, 0]
    assert [history.remaining for _, history in found if history] == [2, 1, 0]
    assert [each.key for each in records(target)][-3:] == [b"a", None, None]
    assert len({each.timestamp_ns for each in records(target)[-5:]}) == 1


def test_retry_after_a_failed_append_duplicates_no_output(
    logs: tuple[CommitLog, CommitLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = logs
    sell(source, 2, 5)
    service = Service(method_writer(target, Events))
    reader = method_reader(source, service, after_last_written=target)
    append_many = CommitLog.append_many

    def appended_but_failed(self: CommitLog, *arguments: Any, **options: Any) -> Any:
        append_many(self, *arguments, **options)
        raise LogFailedError("the flush failed")

    monkeypatch.setattr(CommitLog, "append_many", appended_but_failed)
    with pytest.raises(LogFailedError):
        reader.run(timeout=0)
    monkeypatch.undo()
    assert reader.run(timeout=0) == 1
    assert collected(target) == [(2, 0), (2, 1), (5, 0), (5, 1)]


def test_partly_written_outputs_are_completed(
    logs: tuple[CommitLog, CommitLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = logs
    sell(source, 1, 5, 8)
    append_many = CommitLog.append_many

    def first_only(self: CommitLog, values: Any, **options: Any) -> Any:
        if SCHEMA_TYPE in options["types"]:
            return append_many(self, values, **options)
        lists = {name: options[name][:1] for name in ("keys", "types")}
        append_many(self, values[:1], **{**options, **lists})
        raise LogFailedError("the machine lost its power")

    monkeypatch.setattr(CommitLog, "append_many", first_only)
    with pytest.raises(LogFailedError):
        handled(*logs)
    monkeypatch.undo()
    assert handled(*logs) == [5, 8]
    assert collected(target) == [(1, 0), (5, 0), (5, 1), (8, 0), (8, 1)]


@pytest.mark.parametrize("later", [(), (9,)], ids=["none", "another"])
def test_output_whose_input_was_lost_is_refused(tmp_path: Path, later: tuple[int, ...]) -> None:
    kept = tmp_path / "kept"
    with commitlog.open(tmp_path / "out") as target:
        with commitlog.open(tmp_path / "in") as source:
            sell(source, 1)
        copy_log(source.path, kept)
        with commitlog.open(tmp_path / "in") as source:
            sell(source, 2)
            handled(source, target)
        shutil.rmtree(source.path)
        kept.rename(source.path)
        with commitlog.open(tmp_path / "in") as source:
            sell(source, *later)
            with pytest.raises(PositionError, match="outputs of a message at position"):
                handled(source, target)


def test_lost_outputs_are_written_again(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "in") as source:
        sell(source, 1, 2)
        with commitlog.open(tmp_path / "out") as target:
            assert handled(source, target, name="service") == [1, 2]
        shutil.rmtree(target.path)
        with commitlog.open(tmp_path / "out") as target:
            assert handled(source, target, name="service") == [1, 2]


@pytest.mark.parametrize("fault", ["history", "end", "reader", "handle", "writer"])
def test_output_without_its_input_is_refused(logs: tuple[CommitLog, CommitLog], fault: str) -> None:
    source, target = logs
    sell(source, 1)
    if fault == "history":
        with pytest.raises(InvalidOptionError, match="needs history"):
            handled(source, target, history=False)
        return
    if fault == "end":
        with pytest.raises(InvalidOptionError, match="needs start="):
            handled(source, target, start="end")
        return
    with commitlog.open(target.path, "r" if fault == "reader" else "a") as other:
        if fault == "reader":
            service = Service(method_writer(target, Events))
            with pytest.raises(InvalidOptionError, match="open for appending"):
                method_reader(source, service, after_last_written=other)
            return
        log = other if fault == "handle" else target
        service = Service(method_writer(log, Events, history=fault != "writer"))
        reader = method_reader(source, service, after_last_written=target)
        with pytest.raises(InvalidOptionError, match="writes to that open log"):
            reader.read_one()
    assert collected(target) == []


def test_deleted_input_needs_a_saved_place(logs: tuple[CommitLog, CommitLog]) -> None:
    source, target = logs
    sell(source, 1, *[3] * 9000)
    handled(source, target, name="service")
    source.flush()
    assert source.delete_before(source.tail_position)
    sell(source, 2)
    with pytest.raises(PositionError):
        handled(source, target)
    with pytest.raises(PositionError):
        handled(source, target, name="new")
    assert handled(source, target, name="service")[-1] == 2
