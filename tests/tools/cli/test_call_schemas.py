"""`commitlog call` makes only calls that a method reader decodes, for methods of any types."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import commitlog
from tests.tools.cli.program import run


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    age: int


class Node(msgspec.Struct):
    id: int
    when: dt.date
    next: Node | None = None
    many: list[Node] = []


class Left(msgspec.Struct):
    right: Right | None = None


class Right(msgspec.Struct):
    left: Left
    raw: bytes


class Quote(msgspec.Struct, array_like=True):
    bid: float
    ask: float = 0.5


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Shop:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def counts(self, value: dict[int, str]) -> None:
        self.calls.append(("counts", value))

    def pet(self, value: Cat | Dog) -> None:
        self.calls.append(("pet", value))

    def tree(self, value: Node) -> None:
        self.calls.append(("tree", value))

    def mutual(self, value: Left) -> None:
        self.calls.append(("mutual", value))

    def quote(self, value: Quote) -> None:
        self.calls.append(("quote", value))

    def pair(self, value: Pair) -> None:
        self.calls.append(("pair", value))

    def at(self, value: dt.datetime) -> None:
        self.calls.append(("at", value))

    def days(self, value: dict[dt.date, list[bytes]]) -> None:
        self.calls.append(("days", value))


DAY = dt.date(2026, 5, 1)
FIRST: dict[str, Any] = {
    "counts": {1: "a"},
    "pet": Cat(9),
    "tree": Node(1, DAY),
    "mutual": Left(),
    "quote": Quote(1.0, 2.0),
    "pair": Pair(1, "a"),
    "at": dt.datetime(2026, 5, 1),  # noqa: DTZ001
    "days": {DAY: [b"x"]},
}
TREE = {"id": 1, "when": "2026-05-01", "next": {"id": 2, "when": "2026-05-02"}}
RIGHT = {"right": {"left": {"right": {"left": {}, "raw": "AAE="}}, "raw": "AAE="}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log") as opened:
        shop: Any = commitlog.method_writer(opened, Shop)
        for method, value in FIRST.items():
            getattr(shop, method)(value)
    return tmp_path / "log"


def calls_of(path: Path) -> list[tuple[str, Any]]:
    shop = Shop()
    with commitlog.open(path) as log, commitlog.method_reader(log, shop) as reader:
        reader.run(timeout=0)
    return shop.calls[len(FIRST) :]


@pytest.mark.parametrize(
    ("method", "given", "expected"),
    [
        ("counts", {"2": "b"}, {2: "b"}),
        ("pet", {"type": "dog", "age": 3}, Dog(3)),
        ("tree", TREE, Node(1, DAY, Node(2, dt.date(2026, 5, 2)))),
        ("mutual", RIGHT, Left(Right(Left(Right(Left(), b"\0\1")), b"\0\1"))),
        ("quote", [3.0], Quote(3.0)),
        ("quote", [3.0, 4.0], Quote(3.0, 4.0)),
        ("pair", [7], Pair(7)),
        ("at", "2026-05-01T10:00:00", dt.datetime(2026, 5, 1, 10)),  # noqa: DTZ001
        ("days", {"2026-05-01": ["AAE="]}, {DAY: [b"\0\1"]}),
    ],
)
def test_value_of_any_type_reaches_the_method(
    log: Path, method: str, given: Any, expected: Any
) -> None:
    done = run("call", log, method, json.dumps(given))
    assert (done.returncode, done.stderr) == (0, b"")
    assert calls_of(log) == [(method, expected)]


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("counts", {"x": "b"}),
        ("pet", {"type": "cow", "age": 3}),
        ("pet", {"type": "dog", "lives": 3}),
        ("tree", {**TREE, "next": {"id": 2}}),
        ("tree", {**TREE, "next": {"id": 2, "when": "tomorrow"}}),
        ("tree", {**TREE, "many": [{"id": "x", "when": "2026-05-01"}]}),
        ("mutual", {"right": {"left": {"right": {"left": {}, "raw": "!"}}, "raw": "AAE="}}),
        ("quote", ["x"]),
        ("quote", []),
        ("quote", [1, 2, 3]),
        ("pair", ["x"]),
        ("at", "yesterday"),
        ("days", {"yesterday": []}),
    ],
)
def test_value_that_no_reader_decodes_is_refused(log: Path, method: str, given: Any) -> None:
    done = run("call", log, method, json.dumps(given))
    assert done.returncode == 1
    assert b"the argument 'value'" in done.stderr
    assert calls_of(log) == []
