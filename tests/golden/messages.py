"""The messages of the golden logs: for each topic its class, codec and messages. They never change:
logs that were packed years ago have them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from commitlog import bus, topics

KEYS = "golden:" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # bytes(range(32))
COUNT = 40
COMPRESSED_COUNT = 400  # a dictionary is trained after 256


class Order(msgspec.Struct):
    id: int
    item: str
    price: Decimal
    at: dt.datetime
    tags: list[str]


class Visit(msgspec.Struct):
    page: str
    browser: str
    country: str = "DE"


class Price(bus.Message, type=7):
    price: bus.float64
    quantity: bus.int32


class Shop(Protocol):
    def sold(self, item: str, amount: int, note: str = "") -> None: ...


def order(number: int) -> Order:
    return Order(
        number,
        f"lamp {number} é",
        Decimal(number) / 4,
        dt.datetime(2026, 5, 1, 12, 30, number % 60, number, tzinfo=dt.UTC),
        ["red", "blue"][: number % 3],
    )


def visit(number: int) -> Visit:
    return Visit(f"/orders/{number}", "Mozilla/5.0 (X11; Linux x86_64)")


def _protobuf() -> Any:
    """Make the class that protoc would."""
    file = descriptor_pb2.FileDescriptorProto(
        name="golden/receipt.proto", package="golden", syntax="proto3"
    )
    message = file.message_type.add(name="Receipt")
    for number, (name, kind) in enumerate((("id", "INT32"), ("item", "STRING")), 1):
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_OPTIONAL
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("golden.Receipt"))


Receipt = _protobuf()
_AVRO = {"type": "record", "name": "Page", "fields": [{"name": "page", "type": "string"}]}
_TABLE = pa.schema([("id", pa.int32()), ("item", pa.string())])


@dataclass(frozen=True)
class GoldenTopic:
    """A topic: how it is opened, and what it has."""

    name: str
    kind: Any
    make: Callable[[int], Any]
    codec: Any = None
    count: int = COUNT
    options: tuple[tuple[str, Any], ...] = ()  # of the handle that appends

    def messages(self) -> list[Any]:
        return [self.make(number) for number in range(self.count)]


def _batch(number: int) -> Any:
    return pa.RecordBatch.from_pylist(
        [{"id": number, "item": "lamp"}, {"id": None, "item": None}], schema=_TABLE
    )


def _price(number: int) -> Price:
    return Price(price=number / 8, quantity=-number)


PLAIN_TOPICS = (
    GoldenTopic("json", Order, order, "json"),
    GoldenTopic("msgpack", Order, order, "msgpack"),
    GoldenTopic(
        "protobuf", Receipt, lambda number: Receipt(id=number, item=f"lamp {number}"), "protobuf"
    ),
    GoldenTopic("avro", dict, lambda number: {"page": f"/{number}"}, topics.AvroCodec(_AVRO)),
    GoldenTopic("arrow", pa.RecordBatch, _batch, topics.ArrowCodec(_TABLE)),
    GoldenTopic("fixed", Price, _price, "fixed"),
    GoldenTopic("compressed", Visit, visit, "json", COMPRESSED_COUNT, (("compress", "zstd"),)),
)
SEALED_TOPICS = (
    GoldenTopic("sealed", Order, order, "json"),
    GoldenTopic(
        "sealed-compressed", Visit, visit, "msgpack", COMPRESSED_COUNT, (("compress", "zstd"),)
    ),
    GoldenTopic("sealed-keys", Order, order, "json", options=(("seal_keys", True),)),
)
BOUND_TOPICS = (GoldenTopic("bound", Order, order, "json", options=(("seal_positions", True),)),)
