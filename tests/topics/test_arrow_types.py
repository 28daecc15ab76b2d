"""The Arrow types of schemas, and the values that decoded messages get."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

from commitlog import topics
from commitlog.topics.arrow_types import MISFITS, arrow_type_of, converter
from commitlog.topics.codec import codec_for, plain_decoder
from commitlog.topics.schema import Schema
from tests.topics.test_topic import PRICE, Price

pa = pytest.importorskip("pyarrow")
Instant = Annotated[dt.datetime, msgspec.Meta(tz=True)]
WHEN = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)
DAY = dt.date(2026, 5, 1)


class Color(enum.Enum):
    RED = "red"


class Line(msgspec.Struct):
    item: str
    price: float | None
    parts: list[Line] = []


class Everything(msgspec.Struct):
    id: int
    at: Instant
    day: dt.date
    amount: Decimal
    raw: bytes
    color: Color
    tags: dict[str, int]
    lines: list[Line]
    either: int | str
    pair: tuple[int, str]
    free: Any
    line: Line | None = None
    later: int | None = None


EVERYTHING = Everything(
    7,
    WHEN,
    DAY,
    Decimal("12.50"),
    b"\0\1",
    Color.RED,
    {"a": 1},
    [Line("lamp", None, [Line("bulb", 1.5)])],
    3,
    (1, "a"),
    {"x": [1]},
)


class Call(NamedTuple):
    item: str


def through(codec: Any, message: Any) -> tuple[Any, Any]:
    """The type of a codec's messages, and a message in it."""
    schema = Schema("topic", codec.name, codec.form)
    kind = arrow_type_of(schema)
    made = converter(kind)(plain_decoder(schema)(codec.encode(message)))
    return kind, pa.array([made], kind)[0].as_py()


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_structs_of_msgspec_have_types(codec: Any) -> None:
    kind, found = through(codec_for(Everything, codec), EVERYTHING)
    types = {field.name: str(field.type) for field in kind}
    line = "struct<item: string, price: double, parts: list<item: string>>"
    assert types == {
        "id": "int64",
        "at": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "amount": "decimal128(38, 18)",
        "raw": "binary",
        "color": "string",
        "tags": "map<string, int64>",
        "lines": f"list<item: {line}>",
        "either": "string",
        "pair": "string",
        "free": "string",
        "line": line,
        "later": "int64",
    }
    bulb = '{"item": "bulb", "price": 1.5, "parts": []}'
    assert found == {
        "id": 7,
        "at": WHEN,
        "day": DAY,
        "amount": Decimal("12.50"),
        "raw": b"\0\1",
        "color": "red",
        "tags": [("a", 1)],
        "lines": [{"item": "lamp", "price": None, "parts": [bulb]}],
        "either": "3",
        "pair": '[1, "a"]',
        "free": '{"x": [1]}',
        "line": None,
        "later": None,
    }


def test_fixed_layout_has_types() -> None:
    kind, found = through(codec_for(Price, None), PRICE)
    assert [str(field.type) for field in kind] == [
        "int16",
        "double",
        "timestamp[us, tz=UTC]",
        "string",
        "binary",
        "binary",
        "list<item: int32>",
    ]
    assert (found["name"], found["note"], found["levels"]) == ("lamp", b"xy", [1, 2])
    assert found["at"] == dt.datetime.fromtimestamp(1777638600, dt.UTC)


def test_avro_has_types() -> None:
    pytest.importorskip("fastavro")
    item = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
    node = {"name": "next", "type": ["null", "Node"], "default": None}
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "items", "type": {"type": "array", "items": item}},
        {"name": "first", "type": ["null", "Item"]},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        node,
    ]
    schema = {"type": "record", "name": "Node", "fields": fields}
    message = {
        "at": WHEN,
        "day": DAY,
        "amount": Decimal("1.25"),
        "uid": "12345678-1234-5678-1234-567812345678",
        "items": [{"n": 1}],
        "first": {"n": 2},
        "counts": {"a": 3},
        "kind": "A",
        "raw": b"xy",
        "next": None,
    }
    kind, found = through(topics.AvroCodec(schema), message)
    assert str(kind.field("amount").type) == "decimal128(9, 2)"
    assert str(kind.field("next").type) == "string"
    assert found == {**message, "counts": [("a", 3)]}


def test_arrow_batches_are_lists_of_structs() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", None]})
    kind, found = through(topics.ArrowCodec(batch.schema), batch)
    assert str(kind) == "list<item: struct<a: int64, b: string>>"
    assert found == batch.to_pylist()


def test_what_has_no_type_is_text() -> None:
    assert arrow_type_of(Schema("topic", "of a newer release", {})) == pa.string()
    assert arrow_type_of(Schema("topic", "avro", {"damaged": 1})) == pa.string()
    assert converter(pa.string())({"a": [1]}) == '{"a": [1]}'


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.struct([("a", pa.int64())]), [1]),
        (pa.list_(pa.int64()), 1),
        (pa.date32(), "tomorrow"),
        (pa.timestamp("us", "UTC"), "noon"),
        (pa.decimal128(4, 2), "1.234"),
        (pa.decimal128(4, 2), "many"),
        (pa.binary(), "!"),
        (pa.int32(), 1 << 40),
    ],
)
def test_value_that_does_not_fit_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(MISFITS):
        pa.array([converter(kind)(value)], kind)
