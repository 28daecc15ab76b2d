"""Random and changed bytes of each codec, and changed schemas: a reader returns or raises an error
of the package, in bounded time and memory. These tests also run with the address sanitizer.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import commitlog
from commitlog import bus, topics
from commitlog.errors import (
    CommitLogError,
    MessageError,
    MessageValueError,
    SchemaError,
    UndecodableError,
)
from commitlog.topics.arrow_message import read_batch
from commitlog.topics.avro_bounds import AvroBounds
from commitlog.topics.codec import plain_decoder, typed_decoder
from commitlog.topics.decoding import MessageDecoder, as_json
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from tests.topics.test_codecs import protobuf

SEED = int(os.environ.get("COMMITLOG_SEED", "1"))
ROUNDS = 300
LONG = "x" * 30


class Part(msgspec.Struct, omit_defaults=True):
    name: str = "part"
    size: float | None = None


class Item(msgspec.Struct):
    id: int
    parts: list[Part]
    tags: dict[str, list[int]]
    near: Part | None = None


class Fixed(bus.Message, type=1):
    id: bus.int32
    price: bus.float64


NODE: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "double"}},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9},
        },
        {"name": "next", "type": ["null", "Node"]},
    ],
}
ARROW = pa.schema(
    [
        ("name", pa.string()),
        ("sizes", pa.list_(pa.float64())),
        ("pairs", pa.map_(pa.string(), pa.int32())),
        ("nested", pa.struct([("flags", pa.list_(pa.bool_())), ("raw", pa.binary())])),
    ]
)
PROTO = protobuf(id=(1, "INT64"), item=(2, "STRING"), sizes=(3, "DOUBLE*"))


def _node() -> dict[str, Any]:
    from decimal import Decimal

    leaf = {"id": 2, "names": [], "sizes": {}, "amount": Decimal(7), "next": None}
    return {**leaf, "id": 1, "names": ["a", LONG], "sizes": {"x": 2.5}, "next": leaf}


def _batch() -> Any:
    row = {"name": LONG, "sizes": [1.0, 2.0], "pairs": [("a", 1)]}
    return pa.RecordBatch.from_pylist(
        [{**row, "nested": {"flags": [True], "raw": b"x"}}] * 3, ARROW
    )


ITEM = Item(1, [Part(LONG), Part("b", 2.5)], {"a": [1, 2], LONG: []}, Part())
CASES: dict[str, tuple[Any, dict[str, Any], Callable[[], Any]]] = {
    "json": (Item, {}, lambda: ITEM),
    "msgpack": (Item, {"codec": "msgpack"}, lambda: ITEM),
    "fixed": (Fixed, {}, lambda: Fixed(1, 2.5)),
    "avro": (dict, {"codec": topics.AvroCodec(NODE)}, _node),
    "protobuf": (PROTO, {}, lambda: PROTO(id=1, item=LONG, sizes=[1.0, 2.0])),
    "arrow": (pa.RecordBatch, {"codec": topics.ArrowCodec(ARROW)}, _batch),
    "zstd": (Item, {"compress": "zstd"}, lambda: ITEM),
}


def changed(value: bytes, draw: random.Random) -> bytes:
    """Return bytes near to a value."""
    found = bytearray(value)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(found)) if found else 0
        match draw.randrange(5):
            case 0 if found:
                found[at] = draw.randrange(256)
            case 1:
                del found[at : at + draw.randint(1, 9)]
            case 2:
                found[at:at] = draw.randbytes(draw.randint(1, 9))
            case 3 if len(found) >= 8:
                at = draw.randrange(len(found) - 7)
                number = draw.choice([-1, 1 << 31, (1 << 62) - 1, -(1 << 63), len(found)])
                found[at : at + 8] = struct.pack("<q", number)
            case _:
                found = found[: draw.randrange(len(found) + 1)]
    return bytes(found)


def hostile(value: bytes) -> Iterator[bytes]:
    draw = random.Random(SEED)
    for _ in range(ROUNDS):
        yield changed(value, draw)
    for size in range(40):
        yield draw.randbytes(size)


@pytest.mark.parametrize("case", CASES)
def test_changed_bytes_are_decoded_or_refused(tmp_path: Path, case: str) -> None:
    print(f"seed {SEED}")  # another one: COMMITLOG_SEED
    kind, options, make = CASES[case]
    with commitlog.topic(tmp_path / "log", kind, name="t", **options) as topic:
        topic.append(make())
        topic.append(make())
        *_, first, last = topic.log.tailer()
        values = [*hostile(first.value), *hostile(last.value)]
        topic.log.append_many(values, types=[last.type] * len(values))
        tailer = topic.tailer(on_undecodable="raw")
        read = 0
        for message in tailer:
            read += 1
            repr(message)
        assert read == len(values) + 2
        assert tailer.undecodable > 0
        decoder = MessageDecoder(topic.log)
        refused = 0
        for record in topic.log.tailer(start=first.position):
            try:
                found = decoder.decode(record.type, record.value, record.position, record.key)
            except UndecodableError:
                refused += 1
                continue
            if found is not None:
                json.loads(as_json(found.message))
        assert refused > 0


def spoiled(form: Any, draw: random.Random) -> Any:
    """Return a schema's form with one part replaced, removed or repeated."""
    found = copy.deepcopy(form)
    at, parts = found, []
    while isinstance(at, dict | list) and at:
        key = draw.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        parts.append((at, key))
        at = at[key]
    holder, key = draw.choice(parts)
    odd = [None, -1, 1 << 40, "", "nothing", [], {}, [[]], {"type": "object"}, {"$ref": "#/a"}]
    if isinstance(holder, dict) and draw.random() < 0.3:
        del holder[key]
    else:
        holder[key] = draw.choice(odd)
    return found


@pytest.mark.parametrize("case", [*CASES, "method"])
def test_changed_schema_is_used_or_refused(tmp_path: Path, case: str) -> None:
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    with commitlog.open(tmp_path / "log") as log:
        if case == "method":
            commitlog.method_writer(log, Shop).sold("lamp", [Part()])
        else:
            kind, options, make = CASES[case]
            commitlog.topic(log, kind, name="t", **options).append(make())
        record, message = list(log.tailer())[:2]
        schema = Schema.of_value(record.value)
        for _ in range(ROUNDS):
            odd = Schema("t", schema.codec, spoiled(schema.form, draw), layers=schema.layers)
            log.append(odd.value, key=odd.key, type=SCHEMA_TYPE)
            log.append(message.value, type=odd.number)
        decoder = MessageDecoder(log)
        for each in log.tailer():
            with contextlib.suppress(CommitLogError):
                decoder.decode(each.type, each.value, each.position, each.key)
        with contextlib.suppress(CommitLogError):
            topics.to_arrow(log)
        if case == "method":
            return
        try:
            topic = commitlog.topic(log, kind, name="t", **options)
        except CommitLogError:
            return
        list(topic.tailer(on_undecodable="skip"))


class Shop:
    def sold(self, item: str, parts: list[Part]) -> None:
        raise NotImplementedError


# --- bombs ----------------------------------------------------------------------------------------


def avro_number(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def deep(levels: int) -> bytes:
    level = avro_number(1) + bytes([0, 0]) + avro_number(1) + b"\1"
    return (level + avro_number(1)) * levels + level + avro_number(0)


def doubled(levels: int, leaf: str) -> Any:
    """Return a record that has another one twice, which has another one twice, and so on."""
    form: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": leaf}]}
    for number in range(1, levels):
        parts = [{"name": "a", "type": form}, {"name": "b", "type": f"R{number - 1}"}]
        form = {"type": "record", "name": f"R{number}", "fields": parts}
    return form


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (NODE, deep(200_000)),
        (doubled(60, "null"), b""),
        ({"type": "array", "items": doubled(60, "null")}, avro_number(1) + b"\0"),
        ({"type": "map", "values": doubled(60, "null")}, avro_number(1) + b"\2a\0"),
        (
            {"type": "array", "items": {"type": "array", "items": "null"}},
            avro_number(9000) + (avro_number(9000) + b"\0") * 9000 + b"\0",
        ),
        ({"type": "array", "items": "null"}, avro_number(1 << 40) + b"\0"),
        (
            {"type": "map", "values": {"type": "array", "items": "null"}},
            avro_number(1) + b"\2a" + avro_number(1 << 33) + b"\0\0",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9},
            avro_number(1 << 20) + b"\x7f" * (1 << 20),
        ),
    ],
)
def test_avro_bomb_is_refused(form: Any, value: bytes) -> None:
    decode = plain_decoder(Schema("t", "avro", {"avro": form}))
    with pytest.raises(ValueError, match="levels|do not fit|decimal number"):
        decode(value)


def test_bounds_of_avro_are_used_only_where_needed() -> None:
    assert AvroBounds(NODE).are_needed
    assert not AvroBounds({"type": "array", "items": "long"}).are_needed
    assert deep(20)
    AvroBounds(NODE).check(deep(20))


@pytest.mark.parametrize(
    "form", [doubled(60, "int"), {"type": "fixed", "name": "F", "size": 1 << 40}]
)
def test_avro_schema_of_giant_values_is_refused(form: Any) -> None:
    codec = topics.AvroCodec({"type": "record", "name": "R", "fields": []})
    with pytest.raises(SchemaError, match="a value of the schema"):
        typed_decoder(codec, Schema("t", "avro", {"avro": form}))


def test_decimal_of_a_giant_exponent_takes_no_time(tmp_path: Path) -> None:
    from decimal import Decimal

    before = msgspec.defstruct("Price", [("amount", Decimal)])
    with commitlog.topic(tmp_path / "log", before, name="t") as topic:
        numbers = ["1E1000000000", "-1E-1000000000", "1E400", "1E-400", "NaN", "9" * 100_000]
        for number in numbers:
            topic.append(before(amount=Decimal(number)))
        topic.append(before(amount=Decimal("12.00")))
    for kind, expected in (int, [10**400, 12]), (float, [12.0]):
        reader = msgspec.defstruct("Price", [("amount", kind)])
        with commitlog.topic(tmp_path / "log", reader, name="t") as topic:
            start = time.process_time()
            tailer = topic.tailer(on_undecodable="skip")
            assert [each.amount for each in tailer] == expected
            assert tailer.undecodable == len(numbers) + 1 - len(expected)
            assert time.process_time() - start < 30  # a conversion takes minutes


def test_compressed_arrow_message_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [0] * 100_000})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    source = pa.BufferReader(sink.getvalue())
    pa.ipc.read_message(source)  # the schema
    value = pa.ipc.read_message(source).serialize().to_pybytes()
    with pytest.raises(ValueError, match="the buffers are compressed"):
        read_batch(value, batch.schema)


@pytest.mark.parametrize(
    "make",  # they hold 125 MB: only while a test needs them
    [
        lambda: pa.nulls(10**9),
        lambda: pa.ListArray.from_arrays(pa.array([0, 10**9], pa.int32()), pa.nulls(10**9)),
        lambda: pa.FixedSizeListArray.from_arrays(pa.nulls(10**9), 10**9),
    ],
    ids=["nulls", "list", "fixed size list"],
)
def test_arrow_rows_without_bytes_are_bounded(tmp_path: Path, make: Callable[[], Any]) -> None:
    batch = pa.RecordBatch.from_arrays([make()], ["a"])
    value = batch.serialize().to_pybytes()
    with pytest.raises(ValueError, match="too many for"):
        read_batch(value, batch.schema)
    codec = topics.ArrowCodec(batch.schema)
    with (
        commitlog.topic(tmp_path / "log", pa.RecordBatch, name="t", codec=codec) as topic,
        pytest.raises(MessageValueError, match="too many for"),
    ):
        topic.append(batch)


def test_dictionary_within_an_arrow_schema_is_refused() -> None:
    inner = pa.struct([("a", pa.list_(pa.dictionary(pa.int8(), pa.string())))])
    with pytest.raises(MessageError, match="has a dictionary"):
        topics.ArrowCodec(pa.schema([("x", inner)]))


def test_text_that_arrow_views_share_is_bounded() -> None:
    text = b"x" * 10_000
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    buffers = [None, pa.py_buffer(view * 10_000), pa.py_buffer(text)]
    column = pa.Array.from_buffers(pa.string_view(), 10_000, buffers)
    batch = pa.RecordBatch.from_arrays([column], ["a"])
    codec = topics.ArrowCodec(batch.schema)
    decode = plain_decoder(Schema("t", "arrow", codec.form))
    value = batch.serialize().to_pybytes()
    with pytest.raises(ValueError, match="share too many bytes"):
        decode(value)


def test_topic_of_control_characters_is_refused() -> None:
    with pytest.raises(SchemaError, match="topic"):
        Schema.of_value(Schema("a\nb", "json", {}).value)
