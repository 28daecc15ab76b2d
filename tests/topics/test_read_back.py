"""What is read is what was appended, for all types of msgspec, or an append or an open refuses."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commitlog.errors import MessageValueError, SchemaError
from commitlog.topics.codec import codec_for, plain_decoder, typed_decoder
from commitlog.topics.encoder import MessageEncoder
from commitlog.topics.schema import Schema

SECONDS = dt.timezone(dt.timedelta(hours=1, seconds=30))
HOUR = dt.timezone(dt.timedelta(hours=1))


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Word(enum.Enum):
    ONE = "one"
    TWO = "two"


class Point(msgspec.Struct):
    x: int
    y: float | None = None


class Point3(Point):
    z: int = 0


@dataclasses.dataclass
class Size:
    width: int
    _depth: int = 1


class Pair(NamedTuple):
    left: int
    right: str = ""


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    age: int


class Note(TypedDict, total=False):
    text: str


FLOATS = st.floats(allow_nan=True, width=64)
TIMES = st.datetimes(timezones=st.sampled_from([None, dt.UTC, HOUR, SECONDS]))
POINTS = st.builds(Point, st.integers(-5, 5), st.none() | FLOATS)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | FLOATS | st.text() | st.binary() | TIMES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=2)
    ),
    max_leaves=4,
)
# Each type, and values that a program may give it. Some of them no codec writes.
TYPES: list[tuple[Any, Any]] = [
    (int, st.integers()),
    (float, FLOATS),
    (bool, st.booleans()),
    (str, st.text()),
    (bytes, st.binary()),
    (bytearray, st.binary().map(bytearray)),
    (Decimal, st.decimals(allow_nan=False)),
    (dt.datetime, TIMES),
    (dt.date, st.dates()),
    (dt.time, st.times(timezones=st.sampled_from([None, dt.UTC, SECONDS]))),
    (dt.timedelta, st.timedeltas()),
    (uuid.UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Word, st.sampled_from(Word)),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (Any, ANYTHING),
    (dict, st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2)),
    (list, st.lists(ANYTHING, max_size=2)),
    (float | None, st.none() | FLOATS),
    (int | None, st.none() | st.integers(-5, 5)),
    (int | str | None, st.none() | st.integers() | st.text()),
    (list[float], st.lists(FLOATS, max_size=3)),
    (set[str], st.sets(st.text(max_size=3), max_size=3)),
    (frozenset[int], st.frozensets(st.integers(0, 5), max_size=3)),
    (tuple[int, str], st.tuples(st.integers(-5, 5), st.text())),
    (tuple[float, ...], st.lists(FLOATS, max_size=3).map(tuple)),
    (dict[str, float | None], st.dictionaries(st.text(max_size=3), FLOATS, max_size=2)),
    (dict[int, str], st.dictionaries(st.integers(), st.text(), max_size=2)),
    (dict[float, int], st.dictionaries(FLOATS, st.integers(-5, 5), max_size=2)),
    (
        dict[int | str, int],
        st.dictionaries(st.integers(0, 3) | st.sampled_from("012a"), st.just(1), max_size=3),
    ),
    (dict[dt.date, int], st.dictionaries(st.dates(), st.just(1), max_size=2)),
    (Point, POINTS | st.builds(Point3, st.just(1), z=st.just(7))),
    (list[Point], st.lists(POINTS | st.builds(Point3, st.just(1)), max_size=2)),
    (Size, st.builds(Size, st.integers(0, 3), st.integers(0, 3))),
    (Pair, st.builds(Pair, st.integers(0, 3), st.text())),
    (Cat | Dog, st.builds(Cat, st.integers(0, 3)) | st.builds(Dog, st.integers(0, 3))),
    (Note, st.fixed_dictionaries({}, optional={"text": st.text(), "more": st.just(1)})),
]
DEFAULTS: dict[Any, Any] = {
    int: 4,
    float: 0.5,
    str: "default",
    bytes: b"\0\1",
    (float | None): None,
    frozenset[int]: frozenset({3, 1}),
}
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "array_like": st.just(True),
        "omit_defaults": st.just(True),
        "forbid_unknown_fields": st.just(True),
        "rename": st.sampled_from(["camel", "upper"]),
        "tag": st.just("made"),
    },
)


@st.composite
def fields(draw: Any) -> list[tuple[str, Any, Any]]:
    """Draw the fields of a class, each with its type and the values that it may have."""
    chosen = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    return [(f"f_{index}", *each) for index, each in enumerate(chosen)]


def made(name: str, parts: list[tuple[Any, ...]], options: dict[str, Any]) -> Any:
    return msgspec.defstruct(name, parts, kw_only=True, module=__name__, **options)


def encoder_of(kind: Any, codec: str) -> tuple[MessageEncoder[Any], Schema]:
    codec_of: Any = codec_for(kind, codec)  # type: ignore[arg-type]
    # As another process reads it from the log.
    schema = Schema.of_value(Schema("topic", codec_of.name, codec_of.form).value)
    return MessageEncoder(codec_of, schema, path="", validate=False), schema


def reader_of(kind: Any, codec: str, schema: Schema) -> Callable[[bytes], Any]:
    return typed_decoder(codec_for(kind, codec), schema)  # type: ignore[arg-type]


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals NaN, and types of containers matter."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, msgspec.Struct) and type(one) is type(other):
        return all(
            is_same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
        )
    return bool(one == other)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(fields(), OPTIONS, st.sampled_from(["json", "msgpack"]), st.data())
def test_value_of_any_type_is_read_back_or_refused(
    parts: list[tuple[str, Any, Any]], options: dict[str, Any], codec: str, data: Any
) -> None:
    kind = made("Made", [(name, each) for name, each, _ in parts], options)
    message = kind(**{name: data.draw(values) for name, _, values in parts})
    encoder, schema = encoder_of(kind, codec)
    try:
        value = encoder.encoded(message)
    except MessageValueError:
        return
    assert is_same(reader_of(kind, codec, schema)(value), message)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(fields(), OPTIONS, OPTIONS, st.sampled_from(["json", "msgpack"]), st.data())
def test_changed_class_reads_what_was_appended_or_refuses(
    parts: list[tuple[str, Any, Any]],
    options: dict[str, Any],
    changed: dict[str, Any],
    codec: str,
    data: Any,
) -> None:
    def with_defaults(value: Any) -> list[tuple[Any, ...]]:
        return [
            (name, each, value) if each in DEFAULTS and isinstance(value, type(DEFAULTS[each]))
            else (name, each, DEFAULTS[each]) if each in DEFAULTS
            else (name, each)
            for name, each, _ in parts
        ]  # fmt: skip

    writer = made("Made", with_defaults(None), options)
    kept = data.draw(st.permutations(with_defaults(data.draw(st.sampled_from([9, 1.5, "other"])))))
    kept = kept[: data.draw(st.integers(1, len(kept)))]
    if data.draw(st.booleans()):
        kept.insert(data.draw(st.integers(0, len(kept))), ("added", int, 77))
    reader = made("Made", kept, {**changed, "rename": options.get("rename")})
    given = {
        name: data.draw(values)
        for name, each, values in parts
        if each not in DEFAULTS or data.draw(st.booleans())
    }
    message = writer(**given)
    encoder, schema = encoder_of(writer, codec)
    try:
        value = encoder.encoded(message)
        decode = reader_of(reader, codec, schema)
    except (MessageValueError, SchemaError):
        return
    found = decode(value)
    for name, *_ in kept:
        expected = 77 if name == "added" else getattr(message, name)
        assert is_same(getattr(found, name), expected), name


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(parts=fields(), options=OPTIONS, data=st.data())
def test_reader_without_the_class_has_every_field(
    codec: str, parts: list[tuple[str, Any, Any]], options: dict[str, Any], data: Any
) -> None:
    options = {**options, "omit_defaults": True}
    kind = made(
        "Made",
        [(name, each, *([DEFAULTS[each]] if each in DEFAULTS else ())) for name, each, _ in parts],
        options,
    )
    message = kind(**{name: data.draw(v) for name, each, v in parts if each not in DEFAULTS})
    encoder, schema = encoder_of(kind, codec)
    try:
        value = encoder.encoded(message)
    except MessageValueError:
        return
    assert set(kind.__struct_encode_fields__) <= plain_decoder(schema)(value).keys()
