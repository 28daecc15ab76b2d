"""Versions of schemas of Avro, Protocol Buffers and Arrow read each other, or are refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from commitlog import topics
from commitlog.errors import SchemaError, UndecodableError
from tests.length import mixed
from tests.topics.test_codecs import avro, opened, protobuf

Cases = dict[tuple[str, str], str | None]
_VALUES: dict[str, Any] = {
    "id": 1,
    "item": "lamp",
    "price": 3,
    "amount": 3,
    "note": "gift",
    "size": 9,
}


def table(text: str) -> Cases:
    """Read who reads whom: a dot, or the field at which the reader is refused."""
    (_, *writers), *rows = (line.split() for line in text.strip().splitlines())
    return {
        (reader, writer): None if cell == "." else cell
        for reader, *cells in rows
        for writer, cell in zip(writers, cells, strict=True)
    }


def values(names: Any, **other: Any) -> dict[str, Any]:
    """Return the message of a version with these fields."""
    return {name: {**_VALUES, **other}[name] for name in names}


def read_or_refused(
    path: Path, written: tuple[Any, Any, Any], read: tuple[Any, Any], field: str | None
) -> Iterator[Any]:
    """Append a message, and yield it as another version reads it; nothing if it is refused."""
    kind, codec, message = written
    with opened(path, kind, codec) as topic:
        position = topic.append(message)
    if field is not None:
        with pytest.raises(SchemaError) as caught:
            opened(path, *read)
        assert caught.value.field == (field if field == "$" else f"$.{field}")
        with opened(path, kind, codec, mode="r") as topic:
            assert topic.log.last_position == position  # nothing was appended
        return
    with opened(path, *read) as topic:
        yield from topic.tailer()


# --- Avro -----------------------------------------------------------------------------------------

_Field = tuple[str, Any, dict[str, Any]]
_ID: _Field
_ITEM: _Field
_PRICE: _Field
_ID, _ITEM, _PRICE = ("id", "int", {}), ("item", "string", {}), ("price", "int", {})
AVROS: dict[str, list[_Field]] = {
    "base": [_ID, _ITEM, _PRICE],
    "added": [_ID, _ITEM, _PRICE, ("note", "string", {"default": "none"})],
    "removed": [_ID, _PRICE],
    "renamed": [_ID, _ITEM, ("amount", "int", {"aliases": ["price"]})],
    "long": [_ID, _ITEM, ("price", "long", {})],
    "double": [_ID, _ITEM, ("price", "double", {})],
    "union": [_ID, ("item", ["null", "string"], {}), _PRICE],
    "required": [_ID, _ITEM, _PRICE, ("size", "int", {})],
    "retyped": [_ID, ("item", {"type": "array", "items": "string"}, {}), _PRICE],
    "moved": [_PRICE, _ITEM, _ID],
}
# Only the reader's aliases count, a promotion has one direction, and a union may have another type.
AVRO = table("""
reader\\writer base  added removed renamed long  double union required retyped moved
base          .     .     item    price   price price  item  .        item    .
added         .     .     item    price   price price  item  .        item    .
removed       .     .     .       price   price price  .     .        .       .
renamed       .     .     item    .       amount amount item .        item    .
long          .     .     item    price   .     price  item  .        item    .
double        .     .     item    price   .     .      item  .        item    .
union         .     .     item    price   price price  .     .        item    .
required      size  size  item    price   price price  item  .        item    size
retyped       item  item  item    item    item  item   item  item     .       item
moved         .     .     item    price   price price  item  .        item    .
""")


@pytest.mark.parametrize(("reader", "writer"), mixed(AVROS, AVROS, of=2))
def test_avro_versions_follow_its_schema_resolution(
    tmp_path: Path, reader: str, writer: str
) -> None:
    retyped = {"item": ["lamp"]} if writer == "retyped" else {}
    names = [name for name, *_ in AVROS[writer]]
    message = values(names, **retyped)
    written = (dict, avro(*AVROS[writer]), message)
    read = (dict, avro(*AVROS[reader]))
    for found in read_or_refused(tmp_path / "log", written, read, AVRO[reader, writer]):
        for name, kind, more in AVROS[reader]:
            former = [each for each in (name, *more.get("aliases", ())) if each in message]
            expected = message[former[0]] if former else more["default"]
            assert found[name] == expected, name
            assert type(found[name]) is (float if kind == "double" else type(expected))


# --- Protocol Buffers -----------------------------------------------------------------------------

PROTOBUFS: dict[str, dict[str, tuple[int, str]]] = {
    "base": {"id": (1, "INT32"), "item": (2, "STRING"), "price": (3, "INT32")},
    "added": {
        "id": (1, "INT32"),
        "item": (2, "STRING"),
        "price": (3, "INT32"),
        "note": (4, "STRING"),
    },
    "removed": {"id": (1, "INT32"), "price": (3, "INT32")},
    "renamed": {"id": (1, "INT32"), "item": (2, "STRING"), "amount": (3, "INT32")},
    "long": {"id": (1, "INT32"), "item": (2, "STRING"), "price": (3, "INT64")},
    "bytes": {"id": (1, "INT32"), "item": (2, "BYTES"), "price": (3, "INT32")},
    "double": {"id": (1, "INT32"), "item": (2, "STRING"), "price": (3, "DOUBLE")},
    "several": {"id": (1, "INT32"), "item": (2, "STRING*"), "price": (3, "INT32")},
    "renumbered": {"id": (1, "INT32"), "item": (5, "STRING"), "price": (3, "INT32")},
    "foreign": {"size": (9, "INT32")},
}
# A field that the message does not have is its default.
PROTOBUF = table("""
reader\\writer base  added removed renamed long   bytes double several renumbered foreign
base          .     .     .       .       price  .     price  item    item       $
added         .     .     .       .       price  .     price  item    item       $
removed       .     .     .       .       price  .     price  .       .          $
renamed       .     .     .       .       amount .     amount item    item       $
long          .     .     .       .       .      .     price  item    item       $
bytes         .     .     .       .       price  .     price  item    item       $
double        price price price   price   price  price .      item    item       $
several       item  item  .       item    item   item  item   .       item       $
renumbered    item  item  .       item    item   item  item   item    .          $
foreign       $     $     $       $       $      $     $      $       $          .
""")
_DEFAULTS: dict[str, Any] = {"STRING": "", "BYTES": b"", "STRING*": []}


@pytest.mark.parametrize(("reader", "writer"), mixed(PROTOBUFS, PROTOBUFS, of=2))
def test_protobuf_versions_are_read_by_field_numbers(
    tmp_path: Path, reader: str, writer: str
) -> None:
    changed: dict[str, Any] = {"bytes": {"item": b"lamp"}, "several": {"item": ["lamp"]}}
    message = values(PROTOBUFS[writer], **changed.get(writer, {}))
    written, read = protobuf(**PROTOBUFS[writer]), protobuf(**PROTOBUFS[reader])
    numbered = {number: message[name] for name, (number, _) in PROTOBUFS[writer].items()}
    given = (written, None, written(**message))
    for found in read_or_refused(tmp_path / "log", given, (read, None), PROTOBUF[reader, writer]):
        for name, (number, kind) in PROTOBUFS[reader].items():
            expected = numbered.get(number, _DEFAULTS.get(kind, 0))
            if kind == "BYTES" and isinstance(expected, str):
                expected = expected.encode()
            elif kind == "STRING" and isinstance(expected, bytes):
                expected = expected.decode()
            assert getattr(found, name) == expected, name


# --- Arrow ----------------------------------------------------------------------------------------

_INT, _TEXT = pa.int32(), pa.string()
ARROWS: dict[str, Any] = {
    "base": pa.schema([("id", _INT), ("item", _TEXT), ("price", _INT)]),
    "added": pa.schema([("id", _INT), ("item", _TEXT), ("price", _INT), ("note", _TEXT)]),
    "removed": pa.schema([("id", _INT), ("price", _INT)]),
    "renamed": pa.schema([("id", _INT), ("item", _TEXT), ("amount", _INT)]),
    "long": pa.schema([("id", _INT), ("item", _TEXT), ("price", pa.int64())]),
    "double": pa.schema([("id", _INT), ("item", _TEXT), ("price", pa.float64())]),
    "large": pa.schema([("id", _INT), ("item", pa.large_string()), ("price", _INT)]),
    "required": pa.schema(
        [("id", _INT), ("item", _TEXT), ("price", _INT), pa.field("size", _INT, nullable=False)]
    ),
    "retyped": pa.schema([("id", _INT), ("item", pa.list_(_TEXT)), ("price", _INT)]),
    "moved": pa.schema([("price", _INT), ("item", _TEXT), ("id", _INT)]),
}
# A column that the batch does not have is null, if it may be; an integer may be of any width.
ARROW = table("""
reader\\writer base  added removed renamed long  double large required retyped moved
base          .     .     .       .       .     price  .     .        item    .
added         .     .     .       .       .     price  .     .        item    .
removed       .     .     .       .       .     price  .     .        .       .
renamed       .     .     .       .       .     .      .     .        item    .
long          .     .     .       .       .     price  .     .        item    .
double        .     .     .       .       .     .      .     .        item    .
large         .     .     .       .       .     price  .     .        item    .
required      size  size  size    size    size  price  size  .        item    size
retyped       item  item  .       item    item  item   item  item     .       item
moved         .     .     .       .       .     price  .     .        item    .
""")


@pytest.mark.parametrize(("reader", "writer"), mixed(ARROWS, ARROWS, of=2))
def test_arrow_versions_are_read_by_column_names(tmp_path: Path, reader: str, writer: str) -> None:
    ours, theirs = ARROWS[reader], ARROWS[writer]
    message = values(theirs.names, **({"item": ["lamp"]} if writer == "retyped" else {}))
    batch = pa.RecordBatch.from_pylist([message], schema=theirs)
    written = (pa.RecordBatch, topics.ArrowCodec(theirs), batch)
    read = (pa.RecordBatch, topics.ArrowCodec(ours))
    for found in read_or_refused(tmp_path / "log", written, read, ARROW[reader, writer]):
        assert found.schema == ours
        assert found.to_pylist() == [{name: message.get(name) for name in ours.names}]


def test_arrow_number_that_does_not_fit_is_undecodable(tmp_path: Path) -> None:
    with opened(tmp_path / "log", pa.RecordBatch, topics.ArrowCodec(ARROWS["long"])) as topic:
        rows = [{"id": 1, "item": "lamp", "price": 1 << 40}]
        position = topic.append(pa.RecordBatch.from_pylist(rows, schema=ARROWS["long"]))
    with opened(tmp_path / "log", pa.RecordBatch, topics.ArrowCodec(ARROWS["base"])) as topic:
        with pytest.raises(UndecodableError) as caught:
            topic.tailer().read()
        assert caught.value.position == position
        assert list(topic.tailer(on_undecodable="skip")) == []


def test_avro_record_that_contains_itself_is_read(tmp_path: Path) -> None:
    fields: list[Any] = [
        {"name": "id", "type": "int"},
        {"name": "below", "type": {"type": "array", "items": "Node"}},
    ]
    form = {"type": "record", "name": "Node", "fields": fields}
    more = {**form, "fields": [*fields, {"name": "more", "type": "int", "default": 3}]}
    with opened(tmp_path / "log", dict, topics.AvroCodec(form)) as topic:
        topic.append({"id": 1, "below": [{"id": 2, "below": []}]})
        assert list(topic.tailer()) == [{"id": 1, "below": [{"id": 2, "below": []}]}]
    with opened(tmp_path / "log", dict, topics.AvroCodec(more)) as topic:
        (found,) = topic.tailer()
    assert found["below"] == [{"id": 2, "below": [], "more": 3}]


def test_avro_time_while_clocks_change_is_appended(tmp_path: Path) -> None:
    kind = {"type": "long", "logicalType": "timestamp-micros"}
    form = {"type": "record", "name": "T", "fields": [{"name": "at", "type": kind}]}
    at = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    with opened(tmp_path / "log", dict, topics.AvroCodec(form)) as topic:
        topic.append({"at": at})
        assert topic.tailer().read()["at"].timestamp() == at.timestamp()
