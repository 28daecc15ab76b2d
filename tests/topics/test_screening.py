"""An append refuses what a codec would give back as something else, and costs little."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import pytest

import commitlog
from commitlog.errors import MessageError, MessageValueError
from tests.conftest import ROOT


class Reading(msgspec.Struct):
    place: str
    value: float | None = None
    more: list[float] = []


class Required(msgspec.Struct):
    value: float


class Open(msgspec.Struct):
    content: Any


class Base(msgspec.Struct):
    x: int


class Derived(Base):
    y: int = 2


@dataclasses.dataclass
class Plain:
    x: int


@dataclasses.dataclass
class Richer(Plain):
    y: int = 2


class Nested(msgspec.Struct):
    first: Base
    others: list[Base] = []


class Keyed(TypedDict):
    x: int


class Chained(TypedDict, total=False):
    x: int
    next: Chained


@dataclasses.dataclass
class Ranked:
    rank: int
    value: float | None = dataclasses.field(default=None, compare=False)


class Named(msgspec.Struct):
    name: str
    content: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Plainest(msgspec.Struct, eq=False):
    pass


class Listed(msgspec.Struct):
    numbers: Sequence[int]
    more: Collection[int] | None = None


class Timed(msgspec.Struct):
    at: dt.datetime
    content: Any = None


class Place(NamedTuple):
    x: int


@dataclasses.dataclass
class Wrapped:
    place: Place


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("validate", [False, True])
def test_number_that_json_lacks_is_refused(tmp_path: Path, number: float, validate: bool) -> None:
    with commitlog.open(tmp_path / "log") as log:
        readings = commitlog.topic(log, Reading, validate=validate)
        required = commitlog.topic(log, Required, validate=validate)
        end = log.tail_position
        for append in (
            lambda: readings.append(Reading("a", number)),
            lambda: readings.append(Reading("a", None, [number])),
            lambda: required.append(Required(number)),
            lambda: readings.append_many([Reading("a"), Reading("b", number)]),
            lambda: readings.append(Reading("a", number), expect=0),
        ):
            with pytest.raises(MessageValueError, match='the codec "msgpack" has such numbers'):
                append()
        assert log.tail_position == end
        readings.append(Reading("null", None, [0.5]))
        assert readings.tailer().read() == Reading("null", None, [0.5])


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_number_that_messagepack_has_is_kept(tmp_path: Path, number: float) -> None:
    with commitlog.topic(tmp_path / "log", Reading, codec="msgpack") as readings:
        readings.append(Reading("a", number))
        found = readings.tailer().read()
        assert found is not None
        assert found.value is not None
        assert math.isnan(found.value) if math.isnan(number) else found.value == number


@pytest.mark.parametrize("content", [(1, 2), {1: 2}, dt.date(2026, 1, 1), b"a", Base(1), {3}])
def test_value_that_a_field_of_any_type_loses_is_refused(tmp_path: Path, content: Any) -> None:
    with commitlog.topic(tmp_path / "log", Open) as topic:
        with pytest.raises(MessageValueError, match=r"\$\.content.* would be read as"):
            topic.append(Open(content))
        topic.append(Open({"a": [1, 2.5, None, "x", True]}))


@pytest.mark.parametrize(
    ("kind", "message"),
    [(Base, Derived(1)), (Plain, Richer(1)), (dict, Derived(1))],
)
def test_message_of_a_subclass_is_refused(tmp_path: Path, kind: Any, message: Any) -> None:
    with commitlog.topic(tmp_path / "log", kind, name="base") as topic:
        end = topic.log.tail_position
        with pytest.raises(MessageError, match="append it to its own topic"):
            topic.append(message)
        with pytest.raises(MessageError, match="append it to its own topic"):
            topic.append_many([message])
        assert topic.log.tail_position == end


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("message", [Nested(Derived(1)), Nested(Base(1), [Derived(2)])])
def test_subclass_within_a_message_is_refused(tmp_path: Path, codec: Any, message: Nested) -> None:
    with commitlog.topic(tmp_path / "log", Nested, codec=codec) as topic:
        with pytest.raises(MessageValueError, match="Derived.* would be read as Base"):
            topic.append(message)
        topic.append(Nested(Base(1), [Base(2)]))


def test_key_that_a_typed_dict_lacks_is_refused(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Keyed) as topic:
        with pytest.raises(MessageValueError, match="would be read as"):
            topic.append({"x": 1, "y": 2})  # type: ignore[typeddict-unknown-key]
        topic.append({"x": 1})


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_time_of_a_zone_with_seconds_is_refused(tmp_path: Path, codec: Any) -> None:
    zone = dt.timezone(dt.timedelta(minutes=19, seconds=32))
    moment = dt.time(12, tzinfo=zone)
    with (
        commitlog.topic(tmp_path / "log", Open, codec=codec) as topic,
        pytest.raises(MessageValueError, match="would be read as"),
    ):
        topic.append(Open(moment))


def test_wrong_type_is_refused_by_validation(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Required, validate=True) as topic:
        with pytest.raises(MessageValueError, match="would be read as float"):
            topic.append(Required(2**60 + 1))
        with pytest.raises(MessageValueError, match="readers could not decode it"):
            topic.append(Required("1"))  # type: ignore[arg-type]


@pytest.mark.parametrize("validate", [False, True])
def test_part_that_eq_leaves_out_is_compared(tmp_path: Path, validate: bool) -> None:
    with commitlog.open(tmp_path / "log") as log:
        ranked = commitlog.topic(log, Ranked, validate=validate)
        named = commitlog.topic(log, Named, validate=validate)
        with pytest.raises(MessageValueError, match=r"\$\.value is float nan"):
            ranked.append(Ranked(1, math.nan))
        with pytest.raises(MessageValueError, match=r"\$\.content is tuple"):
            named.append(Named("a", (1, 2)))
        named.append(Named("a", [1, 2]))
        assert named.tailer().read() == Named("a")


@pytest.mark.parametrize("validate", [False, True])
def test_class_without_equality_is_appended(tmp_path: Path, validate: bool) -> None:
    kind = msgspec.defstruct("Holder", [("part", Plainest), ("content", Any)])
    with commitlog.topic(tmp_path / "log", kind, validate=validate) as topic:
        topic.append(kind(Plainest(), {"a": 1}))


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_collection_that_becomes_a_list_is_refused(tmp_path: Path, codec: Any) -> None:
    with commitlog.topic(tmp_path / "log", Listed, codec=codec) as topic:
        for message in Listed((1, 2)), Listed([], {1}), Listed([], frozenset()):
            with pytest.raises(MessageValueError, match="would be read as list"):
                topic.append(message)
        topic.append(Listed([1, 2], [3]))
        assert list(topic.tailer()) == [Listed([1, 2], [3])]


def test_unknown_key_of_an_inner_dict_is_refused(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Chained, name="t") as topic:
        with pytest.raises(MessageValueError, match="would be read as dict"):
            topic.append({"x": 1, "next": {"y": 2}})  # type: ignore[typeddict-item]
        topic.append({"x": 1, "next": {"x": 2}})


@pytest.mark.parametrize("validate", [False, True])
def test_time_while_clocks_change_is_appended(tmp_path: Path, validate: bool) -> None:
    at = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    times = [at, at.replace(fold=1), at.replace(month=3, day=31)]
    with commitlog.topic(tmp_path / "log", Timed, codec="msgpack", validate=validate) as topic:
        for each in times:
            topic.append(Timed(each, each))
        found = [message.at.timestamp() for message in topic.tailer()]
    assert found == [each.timestamp() for each in times]


SCHEMA = """
import enum, msgspec, typing
from commitlog.topics.codec import codec_for
from commitlog.topics.method import Method, Step
from commitlog.topics.schema import Schema
class Word(enum.Enum):
    ONE = "one"; TWO = "two"; THREE = "three"
class Part(msgspec.Struct, frozen=True):
    names: frozenset[str] = frozenset({"x", "y", "z", "xx"})
class Pair(typing.NamedTuple):
    names: frozenset[str] = frozenset({"x", "y", "z", "xx"})
class Made(msgspec.Struct):
    words: frozenset[Word] = frozenset(Word)
    either: frozenset[int | str] = frozenset({1, "a", 2, "b"})
    chosen: set[typing.Literal["a", "b", "c", 1, None]] = msgspec.field(default_factory=set)
    union: int | str | None | list[Word] = None
    part: Part = Part()
    pair: Pair = Pair()
    several: tuple[frozenset[str], ...] = (frozenset({"x", "y", "z", "xx"}),)
    sets: frozenset[frozenset[str]] = frozenset({frozenset({"x", "y"}), frozenset({"z", "v"})})
class Shop:
    def sold(self, words: frozenset[str] = frozenset({"a", "b", "c", "d"})) -> None: ...
for codec in codec_for(Made, "json"), codec_for(Made, "msgpack"), Method([Step(Shop, Shop.sold)]):
    print(Schema("made", codec.name, codec.form).number)
"""


def test_schema_does_not_depend_on_the_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCHEMA],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in range(5)
    }
    assert len(found) == 1
