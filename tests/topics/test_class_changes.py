"""A class that changed reads the values that were appended, or its topic is refused at open."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

import commitlog
from commitlog import bus, topics
from commitlog.errors import SchemaError, UndecodableError

CODECS: Any = pytest.mark.parametrize("codec", ["json", "msgpack"])


class Quote(msgspec.Struct, array_like=True):
    bid: float
    ask: float


class Turned(msgspec.Struct, array_like=True):
    ask: float
    bid: float


class Wider(msgspec.Struct, array_like=True):
    bid: float
    raw: bytes = b"none"
    ask: float = -1.0
    last: float = -2.0


class Renamed(msgspec.Struct, array_like=True):
    offer: Annotated[float, topics.aliases("ask")]


class Tuple(NamedTuple):
    ask: float
    bid: float


class TupleBefore(NamedTuple):
    bid: float
    ask: float


def appended(path: Path, kind: Any, message: Any, codec: Any = None) -> None:
    with commitlog.topic(path / "log", kind, name="t", codec=codec) as topic:
        topic.append(message)


def read(path: Path, kind: Any, codec: Any = None) -> list[Any]:
    with commitlog.topic(path / "log", kind, name="t", codec=codec) as topic:
        return list(topic.tailer())


@CODECS
def test_moved_field_of_an_array_is_found_by_name(tmp_path: Path, codec: Any) -> None:
    appended(tmp_path, Quote, Quote(bid=1.0, ask=2.0), codec)
    assert read(tmp_path, Turned, codec) == [Turned(bid=1.0, ask=2.0)]
    assert read(tmp_path, Wider, codec) == [Wider(1.0, b"none", 2.0, -2.0)]
    assert read(tmp_path, Renamed, codec) == [Renamed(2.0)]
    assert read(tmp_path, Quote, codec) == [Quote(1.0, 2.0)]


@CODECS
def test_moved_field_of_a_named_tuple_is_found_by_name(tmp_path: Path, codec: Any) -> None:
    appended(tmp_path, TupleBefore, TupleBefore(bid=1.0, ask=2.0), codec)
    assert read(tmp_path, Tuple, codec) == [Tuple(bid=1.0, ask=2.0)]


def test_array_of_an_older_release_is_read_by_position(tmp_path: Path) -> None:
    appended(tmp_path, Quote, Quote(bid=1.0, ask=2.0))
    with commitlog.open(tmp_path / "log") as log:
        schema, message = log.tailer()
        value = schema.value.replace(b'"fields":["bid","ask"],', b"")
    assert value != schema.value
    from commitlog.topics.schema import Schema

    older = Schema.of_value(value)
    with commitlog.open(tmp_path / "older") as log:
        log.append(older.value, key=older.key, type=schema.type)
        log.append(message.value, type=older.number)
        with commitlog.topic(log, Quote, name="t") as topic:
            assert list(topic.tailer()) == [Quote(1.0, 2.0)]
        assert topics.to_arrow(log)["message"].to_pylist() == [{"t": [1.0, 2.0]}]


def test_array_has_the_names_of_its_fields_without_the_class(tmp_path: Path) -> None:
    appended(tmp_path, Quote, Quote(bid=1.0, ask=2.0))
    appended(tmp_path, Turned, Turned(bid=3.0, ask=4.0))
    with commitlog.open(tmp_path / "log") as log:
        found = [each["t"] for each in topics.to_arrow(log)["message"].to_pylist()]
    assert found == [{"bid": 1.0, "ask": 2.0}, {"bid": 3.0, "ask": 4.0}]


class Order(msgspec.Struct, omit_defaults=True):
    id: int
    status: str = "new"
    raw: bytes = b"\0\xff"
    tags: list[str] = []


class Other(msgspec.Struct):
    id: int
    status: str
    raw: bytes = b"other"
    tags: list[str] = msgspec.field(default_factory=lambda: ["other"])


@CODECS
def test_omitted_default_is_the_writers(tmp_path: Path, codec: Any) -> None:
    appended(tmp_path, Order, Order(1), codec)
    assert read(tmp_path, Other, codec) == [Other(1, "new", b"\0\xff", [])]
    with commitlog.open(tmp_path / "log") as log:
        (row,) = topics.to_arrow(log)["message"].to_pylist()
    raw = b"\0\xff" if codec == "msgpack" else "AP8="
    assert row["t"] == {"id": 1, "status": "new", "raw": raw, "tags": []}


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Swapped(enum.IntEnum):
    RED = 2
    BLUE = 1


class More(enum.IntEnum):
    RED = 1
    BLUE = 2
    GREEN = 3


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_enum_with_changed_numbers_is_refused(tmp_path: Path, codec: Any) -> None:
    before, swapped, more = (
        msgspec.defstruct("Car", [("color", kind)]) for kind in (Color, Swapped, More)
    )
    appended(tmp_path, before, before(color=Color.RED), codec)
    with pytest.raises(SchemaError, match="was 2, and is 1 in the class|was 1, and is 2"):
        read(tmp_path, swapped, codec)
    assert read(tmp_path, more, codec) == [more(color=More.RED)]


def test_enum_of_a_fixed_layout_with_changed_numbers_is_refused(tmp_path: Path) -> None:
    kinds = {}
    for members in (Color, Swapped):
        swapped = enum.IntEnum("Color", {each.name: each.value for each in members})
        body = {"__annotations__": {"color": Annotated[swapped, bus.uint8]}}
        kinds[members] = type(bus.Message)("Car", (bus.Message,), body, type=1), swapped
    kind, members_before = kinds[Color]
    appended(tmp_path, kind, kind(members_before.RED))
    with pytest.raises(SchemaError, match="was 2, and is 1 in the class"):
        read(tmp_path, kinds[Swapped][0])


@pytest.mark.parametrize("array_like", [False, True])
def test_union_with_changed_tags_is_refused(tmp_path: Path, array_like: bool) -> None:
    def union(first: int, second: int) -> Any:
        options = {"array_like": array_like}
        cat = msgspec.defstruct("Cat", [("x", int)], tag=first, **options)  # type: ignore[call-overload]
        dog = msgspec.defstruct("Dog", [("x", int)], tag=second, **options)  # type: ignore[call-overload]
        return cat | dog, cat

    before, cat = union(1, 2)
    appended(tmp_path, before, cat(x=5))
    with pytest.raises(SchemaError, match="had the tag"):
        read(tmp_path, union(2, 1)[0])
    again, cat_again = union(1, 2)
    assert read(tmp_path, again) == [cat_again(x=5)]


class Wide(msgspec.Struct):
    n: int
    more: list[int] = []


class Floating(msgspec.Struct):
    n: float
    more: list[float] = []


def test_integer_without_an_exact_float_is_not_rounded(tmp_path: Path) -> None:
    appended(tmp_path, Wide, Wide(2**53, [1]))
    assert read(tmp_path, Floating) == [Floating(2.0**53, [1.0])]
    appended(tmp_path, Wide, Wide(2**53 + 1))
    with pytest.raises(UndecodableError, match="has no exact float"):
        read(tmp_path, Floating)


def test_keys_of_another_type_are_refused(tmp_path: Path) -> None:
    numbers = msgspec.defstruct("Counts", [("m", dict[int, int])])
    texts = msgspec.defstruct("Counts", [("m", dict[str, int])])
    appended(tmp_path, numbers, numbers(m={1: 2}))
    with pytest.raises(SchemaError, match="keys of integer cannot be read as string"):
        read(tmp_path, texts)


@CODECS
def test_dict_with_int_keys_is_read_after_a_rename(tmp_path: Path, codec: Any) -> None:
    before = msgspec.defstruct("Counts", [("m", dict[int, bytes]), ("price", int)])
    after = msgspec.defstruct(
        "Counts", [("m", dict[int, bytes]), ("amount", Annotated[int, topics.aliases("price")])]
    )
    appended(tmp_path, before, before(m={1: b"a"}, price=2), codec)
    assert read(tmp_path, after, codec) == [after(m={1: b"a"}, amount=2)]


@CODECS
def test_raw_field_is_read_after_a_rename(tmp_path: Path, codec: Any) -> None:
    raw = msgspec.Raw(msgspec.json.encode({"a": 1}) if codec == "json" else b"\x81\xa1a\x01")
    before = msgspec.defstruct("Event", [("raw", msgspec.Raw), ("price", int)])
    after = msgspec.defstruct(
        "Event", [("raw", msgspec.Raw), ("amount", Annotated[int, topics.aliases("price")])]
    )
    appended(tmp_path, before, before(raw=raw, price=2), codec)
    assert read(tmp_path, after, codec) == [after(raw=raw, amount=2)]


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


Traded = enum.Enum("Side", {"BUY": "s", "SELL": "b"})  # type: ignore[misc]


class FrozenQuote(Quote, array_like=True, frozen=True):
    pass


class FrozenTurned(Turned, array_like=True, frozen=True):
    pass


@CODECS
def test_enum_with_other_values_as_dict_keys_is_refused(tmp_path: Path, codec: Any) -> None:
    appended(tmp_path, dict[Side, int], {Side.BUY: 1}, codec)
    with pytest.raises(SchemaError, match="BUY was 'b', and is 's'"):
        read(tmp_path, dict[Traded, int], codec)  # type: ignore[valid-type]
    assert read(tmp_path, dict[Side, int], codec) == [{Side.BUY: 1}]


@pytest.mark.parametrize(
    ("before", "after"), [(TupleBefore, Tuple), (FrozenQuote, FrozenTurned)], ids=["tuple", "array"]
)
def test_moved_field_of_a_dict_key_is_refused(tmp_path: Path, before: Any, after: Any) -> None:
    message = {before(bid=1.0, ask=2.0): 1}
    appended(tmp_path, dict[before, int], message, "msgpack")
    with pytest.raises(SchemaError, match=r"keys had the items \['bid', 'ask'\]"):
        read(tmp_path, dict[after, int], "msgpack")
    assert read(tmp_path, dict[before, int], "msgpack") == [message]


class Filed(msgspec.Struct, omit_defaults=True):
    raw: bytes | None = b"\xff"
    pair: tuple[int, bytes] = (1, b"\xff")
    free: Any = b"\xff"


class Refiled(msgspec.Struct):
    raw: bytes | None = None
    pair: tuple[int, bytes] = (0, b"")
    free: Any = None


def test_omitted_bytes_in_other_types_are_the_writers(tmp_path: Path) -> None:
    appended(tmp_path, Filed, Filed(), "msgpack")
    assert read(tmp_path, Refiled, "msgpack") == [Refiled(b"\xff", (1, b"\xff"), b"\xff")]
