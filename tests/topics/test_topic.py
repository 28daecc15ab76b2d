"""Topics: messages go in as objects and come out as equal objects; what is refused appends
nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import pickle
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import pytest

import commitlog
from commitlog import bus, topics
from commitlog.errors import (
    InvalidOptionError,
    MessageError,
    MessageValueError,
    MissingExtraError,
    ReadOnlyError,
    RecordTooLargeError,
    SchemaError,
    TopicNotFoundError,
)
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.schema import SCHEMA_TYPE, is_message_type
from tests.topics.orders import WHEN, Order, Refund, records, schema_positions


@dataclasses.dataclass
class Shipment:
    order: int
    boxes: list[int]


class Visit(TypedDict):
    page: str
    seconds: float


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Price(bus.Message, type=3):
    side: Annotated[Side, bus.uint8]
    price: bus.float64
    at: dt.datetime
    name: Annotated[str, 8]
    tag: Annotated[bytes, 4]
    note: Annotated[bytes, bus.MaxLen(8)]
    levels: Annotated[tuple[bus.int32, ...], 2]


PRICE = Price(Side.SELL, 2.5, WHEN, "lamp", b"abcd", b"xy", (1, 2))
MESSAGES: list[tuple[Any, Any, Any]] = [
    (Order, "json", Order(7)),
    (Order, "msgpack", Order(7)),
    (Shipment, "json", Shipment(1, [2, 3])),
    (Shipment, "msgpack", Shipment(1, [2, 3])),
    (Visit, "json", {"page": "/", "seconds": 1.5}),
    (Visit, "msgpack", {"page": "/", "seconds": 1.5}),
    (Price, None, PRICE),
]


def undeclared(log: commitlog.CommitLog) -> list[commitlog.Record]:
    return [record for record in records(log) if record.type != SCHEMA_TYPE]


@pytest.mark.parametrize(("kind", "codec", "message"), MESSAGES)
def test_appended_message_is_read_as_an_equal_object(
    log: commitlog.CommitLog, kind: Any, codec: Any, message: Any
) -> None:
    topic: topics.Topic[Any] = commitlog.topic(log, kind, codec=codec)
    position = topic.append(message)
    many = topic.append_many([message, message])
    assert list(topic.tailer()) == [message] * 3
    assert [record.position for record in undeclared(log)] == [position, *many.tolist()]


def test_first_record_of_a_topic_is_its_schema(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order, name="shop")
    assert records(log) == []  # opening alone appends nothing
    orders.append(Order(1))
    orders.append(Order(2))
    schema, *messages = records(log)
    assert (schema.type, schema.key) == (SCHEMA_TYPE, b"schema:%08x" % messages[0].type)
    content = msgspec.json.decode(schema.value)
    assert (content["topic"], content["codec"], content["format"]) == ("shop", "json", 1)
    expected = msgspec.json.schema(Order)
    expected["$defs"]["Order"]["properties"]["at"]["kind"] = "date-time"
    assert content["schema"] == expected
    assert {record.type for record in messages} == {messages[0].type}
    assert is_message_type(messages[0].type)


def test_schema_records_count_and_have_sequences(log: commitlog.CommitLog) -> None:
    commitlog.topic(log, Order).append(Order(1))
    assert log.count() == 2
    assert [record.sequence for record in records(log)] == [0, 1]


def test_topic_of_a_path_opens_and_closes_the_log(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, segment_size="64KiB") as orders:
        orders.append(Order(1))
        assert orders.log.segment_size == 65536
    assert orders.log.closed
    with commitlog.topic(tmp_path / "log", Order, mode="r") as orders:
        assert orders.log.mode == "r"
        assert list(orders.tailer()) == [Order(1)]
        with pytest.raises(ReadOnlyError):
            orders.append(Order(2))


def test_topic_of_a_log_leaves_the_log_open(log: commitlog.CommitLog) -> None:
    commitlog.topic(log, Order).close()
    assert not log.closed


def test_key_time_and_sync_are_those_of_the_record(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    orders.append(Order(0), key=b"zero", timestamp_ns=5)
    orders.append(Order(1), key=b"one", timestamp_ns=6, sync=True)
    orders.append_many([Order(2), Order(3)], keys=[b"two", None], timestamp_ns=7)
    assert log.flushed_position > 0
    found = undeclared(log)
    assert [record.key for record in found] == [b"zero", b"one", b"two", None]
    assert [record.timestamp_ns for record in found] == [5, 6, 7, 7]


def test_sync_append_many_over_segments_is_durable(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    positions = orders.append_many([Order(n) for n in range(2000)], sync=True)
    assert log.flushed_position > positions[-1]
    assert [order.id for order in orders.tailer(visibility="flushed")] == list(range(2000))


def test_append_async_appends_and_waits(tmp_path: Path) -> None:
    async def program() -> list[int]:
        with commitlog.open(tmp_path / "log", flush="sync") as log:
            orders = commitlog.topic(log, Order)
            first = await orders.append_async(Order(1))
            second = await orders.append_async(Order(2), key=b"k", sync=False)
            assert log.flushed_position > first
            assert [record.position for record in undeclared(log)] == [first, second]
            return [order.id async for order in orders.tailer().follow(timeout=0.01)]

    assert asyncio.run(program()) == [1, 2]


def test_empty_append_many_returns_no_positions(log: commitlog.CommitLog) -> None:
    positions = commitlog.topic(log, Order).append_many([])
    assert positions.dtype == np.int64
    assert (len(positions), records(log)) == (0, [])


def test_dropped_message_has_no_position(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64KiB", on_lag="drop") as log:
        orders = commitlog.topic(log, Order)
        with log.tailer("slow", required=True, max_lag=4096):
            found = [orders.append(Order(n)) for n in range(200)]
        assert found[-1] == -1
        kept = [order.id for order in orders.tailer()]
        assert kept == [n for n, position in enumerate(found) if position >= 0]


# --- what is refused ------------------------------------------------------------------------------


class Weird:
    pass


class WithWeird(msgspec.Struct):
    id: int
    weird: Weird


@pytest.mark.parametrize(
    ("kind", "options", "error", "match"),
    [
        (WithWeird, {}, MessageError, r"WithWeird\.weird: msgspec cannot encode .*Weird"),
        (Weird, {"codec": "msgpack"}, MessageError, "Weird: msgspec cannot encode"),
        (Order, {"codec": "pickle"}, InvalidOptionError, "unpickling runs code"),
        (Order, {"codec": "bson"}, InvalidOptionError, "there is no codec 'bson'"),
        (Order, {"codec": 7}, InvalidOptionError, "codec must be .*, not 7"),
        (Order, {"codec": "fixed"}, MessageError, "has no fixed layout"),
        (Order, {"name": "a/b"}, InvalidOptionError, "'a/b' is invalid"),
        (Order, {"flush": "sync"}, InvalidOptionError, "flush: an open log has its options"),
        (Order, {"mode": "r"}, InvalidOptionError, "mode: an open log has its options"),
    ],
)
def test_invalid_topic_is_refused_with_its_reason(
    log: commitlog.CommitLog, kind: Any, options: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        commitlog.topic(log, kind, **options)
    assert records(log) == []


@pytest.mark.parametrize(
    ("message", "error", "match"),
    [
        (Refund(1), MessageError, "takes Order, not Refund"),
        (Order(1 << 70), MessageValueError, r"\$\.id, which is 1180591620717411303424"),
        (Order(1, item="\ud800"), MessageValueError, r"at \$\.item"),
        (Order(1, item=Weird()), MessageValueError, r"at \$\.item, which is <.*Weird"),  # type: ignore[arg-type]
        (Order(1, item="x" * 9000), RecordTooLargeError, "90"),
    ],
    ids=["class", "range", "surrogate", "type", "size"],
)
def test_bad_message_appends_nothing(
    log: commitlog.CommitLog, message: Any, error: type[Exception], match: str
) -> None:
    orders = commitlog.topic(log, Order, codec="msgpack")
    orders.append(Order(0))
    before = len(records(log))
    with pytest.raises(error, match=match):
        orders.append(message)
    with pytest.raises(error, match=match):
        orders.append_many([Order(1), message])
    with pytest.raises(error, match=match):
        asyncio.run(orders.append_async(message))
    assert len(records(log)) == before


def test_wrong_number_of_keys_appends_nothing(log: commitlog.CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match="2 keys for 1 messages"):
        commitlog.topic(log, Order).append_many([Order(1)], keys=[b"a", b"b"])
    assert records(log) == []


def test_validate_refuses_a_value_of_a_wrong_type(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order, validate=True)
    with pytest.raises(MessageValueError, match=r"Expected `int`, got `str` - at `\$\.id`"):
        orders.append(Order("seven"))  # type: ignore[arg-type]
    assert records(log) == []
    orders.append(Order(7))
    assert list(orders.tailer()) == [Order(7)]


def test_schema_larger_than_a_record_raises(log: commitlog.CommitLog) -> None:
    wide = msgspec.defstruct("Wide", [(f"field_with_a_long_name_{n}", int) for n in range(300)])
    with pytest.raises(RecordTooLargeError, match=r"the schema of topic 'Wide' has \d+ bytes"):
        commitlog.topic(log, wide)


def test_two_classes_for_one_topic_of_a_handle_raise(log: commitlog.CommitLog) -> None:
    commitlog.topic(log, Order, name="shop")
    with pytest.raises(MessageError, match="topic 'shop' of this handle has the class"):
        commitlog.topic(log, Refund, name="shop")
    assert commitlog.topic(log, Order, name="shop").message_class is Order


def test_reader_starts_before_the_first_message(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, Order).append(Order(1))
        with commitlog.open(tmp_path / "log", "r") as reader:
            refunds = commitlog.topic(reader, Refund)
            tailer = refunds.tailer()
            assert tailer.read() is None
            commitlog.topic(log, Refund).append(Refund(7))
            assert tailer.read() == Refund(7)
            with pytest.raises(TopicNotFoundError, match="has no topic 'Refnd'"):
                topics.to_arrow(reader, ["Refnd"])


def test_reader_of_an_empty_log_gets_the_first_message(tmp_path: Path) -> None:
    with (
        commitlog.open(tmp_path / "log") as log,
        commitlog.topic(tmp_path / "log", Order, mode="r") as reader,
    ):
        tailer = reader.tailer()
        assert tailer.read() is None
        commitlog.topic(log, Order).append(Order(1))
        assert tailer.read() == Order(1)


def test_class_statement_that_ran_again_keeps_its_topic(log: commitlog.CommitLog) -> None:
    body = {"__module__": __name__, "__annotations__": {"x": int}}
    before = type(msgspec.Struct)("Cell", (msgspec.Struct,), body)
    commitlog.topic(log, before).append(before(x=1))
    more = {**body, "__annotations__": {"x": int, "y": int}, "y": 5}
    after = type(msgspec.Struct)("Cell", (msgspec.Struct,), more)
    with commitlog.topic(log, after) as again:
        again.append(after(x=2))
        assert list(again.tailer()) == [after(x=1, y=5), after(x=2, y=5)]


def test_message_that_is_none_is_read(log: commitlog.CommitLog) -> None:
    topic: commitlog.Topic[Any] = commitlog.topic(log, int | None, name="numbers")  # type: ignore[arg-type]
    position = topic.append(None)
    topic.append(5)
    tailer = topic.tailer()
    assert tailer.read() is None
    assert tailer.record is not None
    assert tailer.record.position == position
    assert tailer.read() == 5
    assert list(topic.tailer()) == [None, 5]
    with topic.tailer().reading() as message:
        assert message is None


def test_errors_of_a_missing_topic_list_some_topics(log: commitlog.CommitLog) -> None:
    catalog = SchemaCatalog(log)
    with pytest.raises(TopicNotFoundError, match="'Order': it has no topics"):
        catalog.check_topics(["Order"])
    for number in range(12):
        commitlog.topic(log, Order, name=f"t{number:02}").append(Order(1))
    with pytest.raises(TopicNotFoundError, match=r"it has t00, t01, .*t09 and 2 more"):
        catalog.check_topics(["Order"])


def test_refused_topic_of_a_path_closes_the_log(tmp_path: Path) -> None:
    with pytest.raises(MessageError):
        commitlog.topic(tmp_path / "log", Order, codec="fixed")
    with commitlog.topic(tmp_path / "log", Order, name="shop") as orders:
        orders.append(Order(1))
    with pytest.raises(SchemaError):
        commitlog.topic(tmp_path / "log", Refund, name="shop")
    # A pooled log needs the lock for itself.
    with commitlog.TransientStorePool(buffers=3) as pool:
        commitlog.open(tmp_path / "log", pool=pool).close()


def test_missing_msgspec_names_the_extra(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(
        MissingExtraError, match=r"needs msgspec: pip install 'commitlog-engine\[topics\]'"
    ) as caught:
        commitlog.topic(log, Order)
    assert (caught.value.name, caught.value.extra) == ("msgspec", "topics")
    assert records(log) == []


def test_topics_cannot_be_pickled(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    with orders.tailer() as tailer:
        for each in (orders, tailer):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                pickle.dumps(each)


def test_topic_over_a_pool_is_read_back(tmp_path: Path) -> None:
    pool = commitlog.TransientStorePool(buffers=3, buffer_size="64KiB")
    with pool, commitlog.open(tmp_path / "log", segment_size="64KiB", pool=pool) as log:
        orders = commitlog.topic(log, Order)
        for number in range(3000):
            orders.append(Order(number))
        log.commit()
        assert [order.id for order in orders.tailer()] == list(range(3000))
        assert {position // 65536 for position in schema_positions(log)} == {
            record.position // 65536 for record in undeclared(log)
        }
