"""Tailers of topics: objects in the order of the log, their records, and what cannot be decoded."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog import Record, topics
from commitlog.errors import InUseError, InvalidOptionError, SchemaError, UndecodableError
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order, Refund, records, schema_positions


def test_tailer_of_a_topic_skips_other_topics(log: commitlog.CommitLog) -> None:
    orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund, codec="msgpack")
    log.append(b"not a message")
    orders.append(Order(1))
    log.append(b"typed, but not a message", type=7)
    refunds.append(Refund(1))
    orders.append(Order(2))
    assert list(orders.tailer()) == [Order(1), Order(2)]
    assert list(refunds.tailer()) == [Refund(1)]


def test_tailer_of_several_topics_keeps_the_order(log: commitlog.CommitLog) -> None:
    orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund)
    orders.append(Order(1))
    refunds.append(Refund(1))
    orders.append(Order(2))
    seen = []
    for message in topics.tailer([orders, refunds], "audit"):
        match message:
            case Order(id=number):
                seen.append(number)
            case Refund(order=number):
                seen.append(-number)
    assert seen == [1, -1, 2]


def test_tailer_of_no_topics_or_of_two_logs_raises(
    log: commitlog.CommitLog, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOptionError, match="at least one topic"):
        topics.tailer([])
    with (
        commitlog.topic(tmp_path / "other", Order) as other,
        pytest.raises(InvalidOptionError, match="all of one open log"),
    ):
        topics.tailer([commitlog.topic(log, Order), other])


def test_record_gives_place_time_and_sequence(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    position = orders.append(Order(1), key=b"k", timestamp_ns=5)
    tailer = orders.tailer()
    assert tailer.record is None
    for _ in tailer:
        assert tailer.record is not None
        assert (tailer.record.position, tailer.record.timestamp_ns) == (position, 5)
        assert (tailer.record.sequence, tailer.record.key) == (1, b"k")


def test_named_tailer_continues_behind_the_last_message(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    orders.append_many([Order(n) for n in range(5)])
    with orders.tailer("billing") as tailer:
        assert tailer.name == "billing"
        assert tailer.read() == Order(0)
        with pytest.raises(InUseError):
            orders.tailer("billing")
    with orders.tailer("billing") as tailer:
        for order in tailer:
            if order.id == 2:
                break
    with orders.tailer("billing") as tailer:  # the loop was left early: message 2 again
        assert [order.id for order in tailer] == [2, 3, 4]


def test_reading_rewinds_if_the_block_raises(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    orders.append_many([Order(0), Order(1)])
    with orders.tailer("billing") as tailer:
        with pytest.raises(ZeroDivisionError), tailer.reading() as order:
            raise ZeroDivisionError
        with tailer.reading() as order:
            assert order == Order(0)
        with tailer.reading() as order:
            assert order == Order(1)
        with tailer.reading() as order:
            assert order is None


def test_read_waits_for_a_message_among_other_records(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    tailer = orders.tailer()
    assert tailer.read(timeout=0.01) is None

    def write() -> None:
        log.append(b"other")
        orders.append(Order(1))

    thread = threading.Thread(target=write)
    thread.start()
    assert tailer.read(timeout=30) == Order(1)
    thread.join()


def test_follow_yields_messages_in_both_kinds_of_loops(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    orders.append_many([Order(0), Order(1)])
    assert list(orders.tailer().follow(timeout=0.01)) == [Order(0), Order(1)]

    async def collected() -> list[Order]:
        return [order async for order in orders.tailer().follow(timeout=0.01)]

    assert asyncio.run(collected()) == [Order(0), Order(1)]


def test_seek_moves_to_a_message(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    positions = orders.append_many([Order(0), Order(1)], keys=[b"a", b"b"]).tolist()
    tailer = orders.tailer(start="end")
    assert tailer.read() is None
    tailer.seek(positions[0])
    assert tailer.position == positions[0]
    assert tailer.read() == Order(0)
    tailer.seek("first")
    assert tailer.seek(key=b"b")
    assert tailer.read() == Order(1)


# --- messages that cannot be decoded --------------------------------------------------------------


def with_a_broken_message(log: commitlog.CommitLog, value: bytes) -> tuple[Any, int]:
    """A topic with three messages, of which the second has this value."""
    orders = commitlog.topic(log, Order)
    number = log.read(orders.append(Order(0))).type
    position = log.append(value, type=number)
    orders.append(Order(2))
    return orders, position


BROKEN = [
    (b'{"id":"seven"}', r"Expected `int`, got `str` - at `\$\.id`, which is 'seven'", "$.id"),
    (b'{"item":"lamp"}', "missing required field `id`", None),
    (b'{"id":', "Input data was truncated", None),
]


@pytest.mark.parametrize(("value", "match", "field"), BROKEN)
def test_undecodable_message_names_field_value_and_position(
    log: commitlog.CommitLog, value: bytes, match: str, field: str | None
) -> None:
    orders, position = with_a_broken_message(log, value)
    tailer = orders.tailer()
    assert tailer.read() == Order(0)
    for _ in range(2):  # it stays before the message
        with pytest.raises(UndecodableError, match=match) as caught:
            tailer.read()
        assert (caught.value.position, caught.value.topic) == (position, "Order")
        assert caught.value.field == field
    with pytest.raises(UndecodableError, match=match):
        list(tailer)
    with pytest.raises(UndecodableError, match=match), tailer.reading():
        pass
    assert tailer.position == position


@pytest.mark.parametrize("name", [None, "billing"])
def test_raise_stays_before_the_message_in_a_loop(
    log: commitlog.CommitLog, name: str | None
) -> None:
    orders, position = with_a_broken_message(log, b"{}")
    seen = []
    with orders.tailer(name) as tailer:
        with pytest.raises(UndecodableError):
            seen.extend(order.id for order in tailer)
        with pytest.raises(UndecodableError) as caught:
            tailer.read()
    assert (seen, caught.value.position) == ([0], position)
    if name is not None:
        assert log.tailers()[0].position <= position


def test_skip_counts_undecodable_messages(log: commitlog.CommitLog) -> None:
    orders, _ = with_a_broken_message(log, b"{}")
    tailer = orders.tailer(on_undecodable="skip")
    assert list(tailer) == [Order(0), Order(2)]
    assert tailer.undecodable == 1
    tailer.seek("first")
    assert [tailer.read(), tailer.read()] == [Order(0), Order(2)]
    assert tailer.undecodable == 2


def test_raw_hands_over_the_record(log: commitlog.CommitLog) -> None:
    orders, position = with_a_broken_message(log, b"{}")
    tailer = orders.tailer(on_undecodable="raw")
    first, broken, last = tailer
    assert (first, last) == (Order(0), Order(2))
    assert isinstance(broken, Record)
    assert (broken.position, broken.value) == (position, b"{}")
    assert tailer.undecodable == 1


def test_unknown_choice_for_undecodable_messages_raises(log: commitlog.CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match='must be "raise", "skip" or "raw", not 7'):
        commitlog.topic(log, Order).tailer(on_undecodable=7)  # type: ignore[call-overload]


def test_message_without_a_schema_is_not_skipped_silently(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    orders.append(Order(1))
    position = log.append(b"{}", type=0xC123_4567)
    tailer = orders.tailer()
    assert tailer.read() == Order(1)
    with pytest.raises(UndecodableError, match="no schema of its type number") as caught:
        tailer.read()
    assert caught.value.position == position


def appended_schema(log: commitlog.CommitLog, content: Any) -> int:
    """Append a schema as another release might have; return the number of its messages."""
    from commitlog.topics.schema import key_of, number_of

    value = content if isinstance(content, bytes) else msgspec.json.encode(content)
    log.append(value, key=key_of(number_of(value)), type=SCHEMA_TYPE)
    return number_of(value)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"format": 3, "topic": "Order"}, "version 3, and this release reads versions up to 2"),
        (
            {"format": 2, "topic": "Order", "history": 2},
            "history of a topic has version 2, and this release reads versions up to 1",
        ),
        ({"format": 1, "topic": "Order", "codec": "xml", "schema": {}}, "no codec 'xml'"),
        ({"format": 1, "topic": "Order"}, "a schema record is damaged"),
        ({"format": 1, "topic": 3, "codec": 4, "schema": 5}, "its fields have wrong types"),
        (b"no json", "a schema record is damaged"),
    ],
    ids=["newer", "history", "codec", "missing", "types", "bytes"],
)
def test_message_of_an_unreadable_schema_raises(
    log: commitlog.CommitLog, content: Any, match: str
) -> None:
    orders = commitlog.topic(log, Order)
    orders.append(Order(1))
    number = appended_schema(log, content)
    position = log.append(b"{}", type=number)
    tailer = orders.tailer()
    assert tailer.read() == Order(1)
    with pytest.raises(UndecodableError, match=match) as caught:
        tailer.read()
    assert caught.value.position == position
    skipping = orders.tailer(on_undecodable="skip")
    assert list(skipping) == [Order(1)]
    assert skipping.undecodable == 1
    assert len(records(log)) == 4


def test_newer_schema_of_another_topic_is_skipped(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    log.append(b"{}", type=appended_schema(log, {"format": 3, "topic": "Refund"}))
    orders.append(Order(1))
    assert list(orders.tailer()) == [Order(1)]


@pytest.mark.parametrize("has_folder", [True, False])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_newer_schema_refuses_its_own_topic_only(
    tmp_path: Path, mode: Any, has_folder: bool
) -> None:
    folder = tmp_path / "log" / "topics"
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
        content = {"format": 3, "topic": "Refund"}
        number = appended_schema(orders.log, content)
        (folder / f"{number:08x}.json").write_bytes(msgspec.json.encode(content))
        orders.log.append(b"{}", type=number)
    if not has_folder:
        shutil.rmtree(folder)
    with commitlog.topic(tmp_path / "log", Order, mode=mode) as orders:
        assert list(orders.tailer()) == [Order(1)]
        with pytest.raises(SchemaError, match="use a newer release") as caught:
            commitlog.topic(orders.log, Refund)
        assert caught.value.path == orders.log.path
        assert caught.value.position == schema_positions(orders.log)[1]
        with pytest.raises(UndecodableError, match="use a newer release"):
            topics.to_arrow(orders.log)


def test_damaged_schema_is_named_with_path_and_position(log: commitlog.CommitLog) -> None:
    commitlog.topic(log, Order).append(Order(1))
    number = appended_schema(log, b"no json")
    catalog = SchemaCatalog(log)
    for _ in range(2):
        with pytest.raises(SchemaError, match="a schema record is damaged") as caught:
            catalog.find(number)
        assert caught.value.path == log.path
        assert caught.value.position == schema_positions(log)[1]


def test_unknown_codec_of_a_schema_refuses_its_topic(log: commitlog.CommitLog) -> None:
    """Also if its keys are in another order than this release writes them."""
    content = b'{"topic": "Refund", "format": 1, "codec": "xml", "schema": {}}'
    log.append(b"{}", type=appended_schema(log, content))
    with pytest.raises(SchemaError, match="there is no codec 'xml'") as caught:
        commitlog.topic(log, Refund)
    assert caught.value.path == log.path


def test_missing_schema_is_searched_once_per_growth(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = commitlog.topic(log, Order)
    log.append_many([b"{}"] * 5, types=[SCHEMA_TYPE + 1] * 5)
    tailer = orders.tailer(on_undecodable="skip")
    searches = []
    search = SchemaCatalog._search_records

    def counted(self: SchemaCatalog, number: int, start: Any, tail: int) -> Any:
        searches.append(start)
        return search(self, number, start, tail)

    monkeypatch.setattr(SchemaCatalog, "_search_records", counted)
    end = log.tail_position
    assert list(tailer) == []
    assert tailer.undecodable == 5
    assert searches == ["first"]
    log.append_many([b"{}"] * 5, types=[SCHEMA_TYPE + 1] * 5)
    assert list(tailer) == []
    assert searches == ["first", end]


def test_schema_that_arrives_late_is_found(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    with commitlog.topic(Path(log.path).with_name("other"), Refund, name="Order") as other:
        other.append(Refund(1))
        schema, message = records(other.log)
    log.append(message.value, type=message.type)
    raw = orders.tailer(on_undecodable="raw")
    assert isinstance(raw.read(), Record)
    log.append(schema.value, key=schema.key, type=SCHEMA_TYPE)
    log.append(message.value, type=message.type)
    with pytest.raises(UndecodableError, match="a message of topic 'Order'"):
        orders.tailer(start=message.position and raw.position).read()
