"""Versions of a topic's class read each other's messages, or are refused with the field."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

import commitlog
from commitlog import bus
from commitlog.errors import SchemaError
from commitlog.topics import aliases
from tests.length import mixed


class Line(msgspec.Struct):
    item: str
    count: int = 1


class NewLine(msgspec.Struct):
    article: Annotated[str, aliases("item")]
    count: float = 1.0


def version(*fields: Any, **options: Any) -> Any:
    return msgspec.defstruct("Order", fields, **options)


LINES = [Line("lamp", 2)]
# Each version with a message, and the values of all fields that a reader may ask for: those that
# the message lacks are the defaults of the reader.
VERSIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "base": (
        version(("id", int), ("item", str), ("price", int), ("lines", list[Line])),
        {"id": 1, "item": "lamp", "price": 3, "lines": LINES},
    ),
    "added": (
        version(
            *(("id", int), ("item", str), ("price", int), ("lines", list[Line])),
            *(("note", str, "none"), ("tags", list[str], [])),
        ),
        {"id": 2, "item": "lamp", "price": 3, "lines": LINES, "note": "gift", "tags": ["a"]},
    ),
    "removed": (
        version(("id", int), ("price", int), ("lines", list[Line])),
        {"id": 3, "price": 3, "lines": LINES},
    ),
    "renamed": (
        version(
            *(("id", int), ("item", str), ("amount", Annotated[int, aliases("price")])),
            ("lines", list[Line]),
        ),
        {"id": 4, "item": "lamp", "amount": 3, "lines": LINES},
    ),
    "widened": (
        version(("id", int), ("item", str | None), ("price", float), ("lines", list[Line])),
        {"id": 5, "item": "lamp", "price": 3.0, "lines": LINES},
    ),
    "decimal": (
        version(("id", int), ("item", str), ("price", Decimal), ("lines", list[Line])),
        {"id": 6, "item": "lamp", "price": Decimal(3), "lines": LINES},
    ),
    "nested": (
        version(("id", int), ("item", str), ("price", int), ("lines", list[NewLine])),
        {"id": 7, "item": "lamp", "price": 3, "lines": [NewLine("lamp", 2.0)]},
    ),
    "required": (
        version(
            *(("id", int), ("item", str), ("price", int), ("lines", list[Line])), ("size", int)
        ),
        {"id": 8, "item": "lamp", "price": 3, "lines": LINES, "size": 9},
    ),
    "retyped": (
        version(("id", int), ("item", list[int]), ("price", int), ("lines", list[Line])),
        {"id": 9, "item": [1], "price": 3, "lines": LINES},
    ),
}


def refused_field(reader: str, writer: str) -> str | None:
    """The field at which a version cannot read another one's messages; None if it can."""
    if reader == writer:
        return None
    if reader == "required" and writer != "removed":
        return "$.size"
    if "retyped" in (reader, writer) and "removed" not in (reader, writer):
        return "$.item"
    if reader != "removed" and writer == "removed":
        return "$.item"
    return None


def told(fields: dict[str, Any], name: str, kind: Any) -> Any:
    """The value that a reader gets, by the names of both versions."""
    other = {"price": "amount", "amount": "price"}.get(name)
    if name not in fields and other in fields:
        name = other
    if name not in fields:
        return {"note": "none", "tags": []}[name]
    value = fields[name]
    if name == "lines":
        pairs = [(getattr(line, "item", None) or line.article, line.count) for line in value]
        if kind == list[NewLine]:
            return [NewLine(item, float(count)) for item, count in pairs]
        return [Line(item, int(count)) for item, count in pairs]
    return value


@pytest.mark.parametrize(
    ("reader", "writer", "codecs"),
    mixed(
        VERSIONS,
        VERSIONS,
        [("json", "json"), ("msgpack", "msgpack"), ("json", "msgpack")],
        of=3,
    ),
)
def test_each_version_reads_or_refuses_each_other_one(
    tmp_path: Path, reader: str, writer: str, codecs: Any
) -> None:
    (written, fields), (read, _) = VERSIONS[writer], VERSIONS[reader]
    message = written(**fields)
    with commitlog.topic(tmp_path / "log", written, codec=codecs[0]) as orders:
        position = orders.append(message)
    field = refused_field(reader, writer)
    if field is not None:
        with pytest.raises(SchemaError) as caught:
            commitlog.topic(tmp_path / "log", read, codec=codecs[1])
        assert (caught.value.field, caught.value.topic) == (field, "Order")
        for shown in (written, read):
            assert msgspec.json.encode(msgspec.json.schema(shown)["$ref"]).decode() in str(
                caught.value
            )
        with commitlog.open(tmp_path / "log", "r") as log:
            assert log.last_position == position  # nothing was appended
        return
    with commitlog.topic(tmp_path / "log", read, codec=codecs[1]) as orders:
        (found,) = orders.tailer()
    assert type(found) is read
    for each in msgspec.structs.fields(read):
        expected = told(fields, each.name, each.type)
        assert getattr(found, each.name) == expected, each.name
        if each.type in (int, float, Decimal):
            assert type(getattr(found, each.name)) is each.type


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_messages_of_all_versions_are_read_in_one_loop(tmp_path: Path, codec: Any) -> None:
    compatible = ["base", "added", "renamed", "widened", "decimal", "nested"]
    for name in compatible:
        kind, fields = VERSIONS[name]
        with commitlog.topic(tmp_path / "log", kind, codec=codec) as orders:
            orders.append(kind(**fields))
    for name in compatible:
        with commitlog.topic(tmp_path / "log", VERSIONS[name][0], codec=codec, mode="r") as orders:
            assert [order.id for order in orders.tailer()] == [1, 2, 4, 5, 6, 7]


def test_open_tailer_reads_messages_of_a_newer_version(tmp_path: Path) -> None:
    (old, old_fields), (new, new_fields) = VERSIONS["base"], VERSIONS["renamed"]
    with commitlog.topic(tmp_path / "log", old) as orders:
        orders.append(old(**old_fields))
        tailer = orders.tailer()
        assert [order.id for order in tailer] == [1]
        with commitlog.topic(tmp_path / "log", new) as newer:
            newer.append(new(**new_fields))
        (found,) = tailer
        assert (type(found), found.id, found.price) == (old, 4, 3)


def test_narrowed_value_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    (old, _), (new, fields) = VERSIONS["base"], VERSIONS["widened"]
    with commitlog.topic(tmp_path / "log", new) as orders:
        orders.append(new(**{**fields, "price": 3.5}))
        orders.append(new(**{**fields, "price": 4.0}))
    with commitlog.topic(tmp_path / "log", old, mode="r") as orders:
        tailer = orders.tailer(on_undecodable="skip")
        assert [order.price for order in tailer] == [4]
        assert tailer.undecodable == 1
        with pytest.raises(commitlog.errors.UndecodableError, match=r"`\$\.price`, which is 3\.5"):
            orders.tailer().read()


class Node(msgspec.Struct):
    value: int
    below: list[Node] = []
    next: Node | None = None


class NewNode(msgspec.Struct):
    amount: Annotated[int, aliases("value")]
    below: list[NewNode] = []
    next: NewNode | None = None


class Circle(msgspec.Struct, tag="circle"):
    radius: int


class Square(msgspec.Struct, tag="square"):
    side: int


class NewSquare(msgspec.Struct, tag="square"):
    length: Annotated[float, aliases("side")]


class Pair(msgspec.Struct, array_like=True):
    a: int
    b: int = 2


class WidePair(msgspec.Struct, array_like=True):
    a: float
    b: int = 2
    c: int = 3


PAIRS: list[tuple[Any, Any, Any, Any]] = [
    (Node, NewNode, Node(1, [Node(2)], Node(3)), NewNode(1, [NewNode(2)], NewNode(3))),
    (NewNode, Node, NewNode(1, [NewNode(2)], NewNode(3)), Node(1, [Node(2)], Node(3))),
    (Circle | Square, Circle | NewSquare, Square(2), NewSquare(2.0)),
    (Circle | NewSquare, Circle | Square, NewSquare(2.0), Square(2)),
    (Square, Circle | Square, Square(2), Square(2)),
    (Circle | Square, Square, Square(2), Square(2)),
    (Pair, WidePair, Pair(1), WidePair(1.0)),
    (WidePair, Pair, WidePair(1.0), Pair(1)),
    (dict[str, Line], dict[str, NewLine], {"a": Line("x", 2)}, {"a": NewLine("x", 2.0)}),
    (int, int | str, 3, 3),
    (int | str, int, 3, 3),
    (tuple[int, Line], tuple[float, NewLine], (1, Line("x")), (1.0, NewLine("x"))),
    (Literal["a"], Literal["a", "b"], "a", "a"),
    (Literal["a", "b"], str, "a", "a"),
    (bytes, bytes, b"a", b"a"),
]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("case", range(len(PAIRS)))
def test_nested_changes_are_read(tmp_path: Path, case: int, codec: Any) -> None:
    written, read, message, expected = PAIRS[case]
    with commitlog.topic(tmp_path / "log", written, name="t", codec=codec) as topic:
        topic.append(message)
    with commitlog.topic(tmp_path / "log", read, name="t", codec=codec) as topic:
        (found,) = topic.tailer()
    assert found == expected
    assert type(found) is type(expected)


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    id: int


class Loose(msgspec.Struct):
    id: int
    extra: str = ""


@pytest.mark.parametrize(
    ("written", "read", "field", "why"),
    [
        (Loose, Strict, "$.extra", "forbids unknown fields"),
        (Line, Loose, "$", "have no field in common"),
        (int, str, "$", "integer cannot be read as string"),
        (int | str, int | bool, "$", r"integer \| string cannot be read as integer \| boolean"),
        (bytes, str, "$", "bytes cannot be read as string"),
        (Literal["a"], Literal["b"], "$", "has no value of"),
        (Literal["a"], int, "$", "cannot be read as integer"),
        (tuple[int], tuple[int, int], r"$[1]", "no default"),
        (tuple[int, int], tuple[int], "$", "2 items, and the class 1"),
        (list[Line], list[Circle], "$[...]", "."),
    ],
)
def test_refusal_says_where_and_why(
    tmp_path: Path, written: Any, read: Any, field: str, why: str
) -> None:
    with commitlog.topic(tmp_path / "log", written, name="t") as topic:
        topic.append(msgspec.convert(sample(written), written))
    with pytest.raises(SchemaError, match=why) as caught:
        commitlog.topic(tmp_path / "log", read, name="t")
    assert caught.value.field is not None
    assert caught.value.field.startswith(field)


def sample(kind: Any) -> Any:
    known: dict[Any, Any] = {int: 1, int | str: 1, bytes: "YQ==", Literal["a"]: "a"}
    known |= {tuple[int]: [1], tuple[int, int]: [1, 2], Loose: {"id": 1}, Line: {"item": "x"}}
    return [] if kind == list[Line] else known[kind]


# --- fixed layouts --------------------------------------------------------------------------------


class Price(bus.Message, type=1):
    price: bus.float64
    count: bus.int32


class MovedPrice(bus.Message, type=1):
    count: bus.int32
    price: bus.float64


class PriceAlone(bus.Message, type=1):
    price: bus.float64


class IntegerPrice(bus.Message, type=1):
    price: bus.int64


def test_fixed_layout_with_moved_fields_is_read(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Price, name="t") as topic:
        topic.append(Price(2.5, 3))
    with commitlog.topic(tmp_path / "log", MovedPrice, name="t") as moved:
        assert list(moved.tailer()) == [MovedPrice(3, 2.5)]
    with commitlog.topic(tmp_path / "log", PriceAlone, name="t") as alone:
        assert list(alone.tailer()) == [PriceAlone(2.5)]


@pytest.mark.parametrize(
    ("written", "read", "field"),
    [(PriceAlone, Price, "$.count"), (Price, IntegerPrice, "$.price"), (Price, Line, None)],
)
def test_fixed_layout_that_does_not_fit_is_refused(
    tmp_path: Path, written: Any, read: Any, field: str | None
) -> None:
    with commitlog.topic(tmp_path / "log", written, name="t") as topic:
        topic.append(written.blank())
    with pytest.raises(SchemaError) as caught:
        commitlog.topic(tmp_path / "log", read, name="t")
    assert caught.value.field == field
