"""`commitlog call`: calls by the schemas of the log, from arguments, JSON lines and YAML."""

from __future__ import annotations

import datetime as dt
import enum
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol
from uuid import UUID

import msgspec
import pytest

import commitlog
from tests.tools.cli.program import ROOT, run
from tests.topics.orders import Order, records


class Line(msgspec.Struct):
    sku: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    parent: Line | None = None


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Shop(Protocol):
    def sold(self, item: str, amount: int, note: str = "") -> None: ...
    def closed(self) -> None: ...
    def many(self, items: list[str]) -> None: ...
    def odd(  # noqa: PLR0917
        self,
        line: Line,
        price: Decimal,
        at: Annotated[dt.datetime, msgspec.Meta(tz=True)],
        raw: bytes,
        side: Side,
        id: UUID,
        pair: tuple[int, str],
        kind: Literal[1, 2] = 1,
        counts: dict[str, int] | None = None,
        any: Any = None,
    ) -> None: ...


class Seen:
    """Keep the calls of a shop."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def sold(self, item: str, amount: int, note: str = "") -> None:
        self.calls.append(("sold", item, amount, note))

    def closed(self) -> None:
        self.calls.append(("closed",))

    def many(self, items: list[str]) -> None:
        self.calls.append(("many", items))

    def odd(  # noqa: PLR0917
        self,
        line: Line,
        price: Decimal,
        at: Annotated[dt.datetime, msgspec.Meta(tz=True)],
        raw: bytes,
        side: Side,
        id: UUID,
        pair: tuple[int, str],
        kind: Literal[1, 2] = 1,
        counts: dict[str, int] | None = None,
        any: Any = None,
    ) -> None:
        self.calls.append((line, price, at, raw, side, id, pair, kind, counts, any))


UUID_TEXT = "12345678-1234-5678-1234-567812345678"
ODD = {
    "line": {"sku": "x", "parent": {"sku": "y", "count": 2}},
    "price": "12.50",
    "at": "2026-05-01T12:30:00Z",
    "raw": "aGk=",
    "side": "sell",
    "id": UUID_TEXT,
    "pair": [1, "a"],
    "counts": {"a": 1},
    "any": [1, {"b": None}],
}
ODD_CALL = (
    Line("x", 1, Line("y", 2)),
    Decimal("12.50"),
    dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC),
    b"hi",
    Side.SELL,
    UUID(UUID_TEXT),
    (1, "a"),
    1,
    {"a": 1},
    [1, {"b": None}],
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that knows the methods of a shop, each by a call."""
    with commitlog.open(tmp_path / "log") as opened:
        opened.append(b"plain")
        commitlog.topic(opened, Order).append(Order(1))
        shop = commitlog.method_writer(opened, Shop)
        shop.sold("desk", 1)
        shop.closed()
        shop.many([])
        shop.odd(*ODD_CALL)
    return tmp_path / "log"


def calls_behind(path: Path, count: int = 4) -> list[tuple[Any, ...]]:
    """The calls behind the first ones."""
    seen = Seen()
    with commitlog.open(path) as log, commitlog.method_reader(log, seen) as reader:
        reader.run(timeout=0)
    return seen.calls[count:]


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("sold", '"lamp"', "3"), ("sold", "lamp", 3, "")),
        (("sold", '"lamp"', "-3", '"x"'), ("sold", "lamp", -3, "x")),
        (
            ("sold", '"lamp"', "note=null".replace("null", '"a=b"'), "amount=3"),
            ("sold", "lamp", 3, "a=b"),
        ),
        (("closed",), ("closed",)),
        (("many", '["a", "b"]'), ("many", ["a", "b"])),
        (("odd", *(f"{name}={json.dumps(value)}" for name, value in ODD.items())), ODD_CALL),
    ],
    ids=lambda given: given[0] if isinstance(given[0], str) else None,
)
def test_arguments_reach_the_reader(log: Path, arguments: Any, call: tuple[Any, ...]) -> None:
    done = run("call", log, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"appended 1 call\n", b"")
    assert calls_behind(log) == [call]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("sold", "lamp", "3"), 2, "'lamp' is not JSON"),
        (("sold", 'item="a"', "3"), 2, "follows an argument with a name"),
        (("sold", "amount=1", "amount=2"), 2, "given twice"),
        (("sold",), 1, "needs the argument 'item'; its arguments are item, amount, note"),
        (("sold", '"a"', "1", '"b"', "2"), 1, "takes 3 arguments, not 4"),
        (("sold", '"a"', "count=1"), 1, "has no argument 'count'"),
        (("sold", '"a"', 'item="b"'), 1, "has the argument 'item' twice"),
        (("sold", '"a"', '"three"'), 1, "the argument 'amount': Expected `int`, got `str`"),
        (("sold", '"a"', "1.5"), 1, "the argument 'amount': Expected `int`, got `float`"),
        (("many", '["a", 1]'), 1, r"Expected `str`, got `int` - at `$[1]`"),
        (("odd", 'line={"sku": "x", "cuont": 2}'), 1, "needs the argument"),
        (("Order", "{}"), 1, "the log has no calls of a method 'Order': it has "),
        (("nothing",), 1, "the log has no calls of a method 'nothing': it has "),
        (("slod", "1"), 1, "did you mean 'sold'?"),
        ((), 2, "give either METHOD"),
        (("sold", "--file", "x"), 2, "give either METHOD"),
        (("sold", "--interface", "nothing"), 2, "takes MODULE:CLASS"),
        (("sold", "--interface", "no_module:Shop"), 2, "No module named 'no_module'"),
        (("sold", "--interface", "json:nothing"), 2, "has no attribute 'nothing'"),
        (("sold", "--interface", "json:dumps"), 2, "is not a class"),
        (("--file", "nothing.jsonl"), 1, "nothing.jsonl"),
    ],
)
def test_wrong_call_appends_nothing(
    log: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    with commitlog.open(log, "r") as opened:
        before = len(records(opened))
    done = run("call", log, *arguments)
    assert done.returncode == status, done
    assert said in done.stderr.decode()
    with commitlog.open(log, "r") as opened:
        assert len(records(opened)) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("line", {"sku": "x", "cuont": 2}),
        ("line", {"sku": "x", "count": 0}),
        ("at", "yesterday"),
        ("raw", "!"),
        ("side", "hold"),
        ("kind", 3),
        ("pair", [1]),
        ("counts", {"a": "b"}),
    ],
)
def test_value_that_a_reader_would_refuse_is_refused(log: Path, name: str, value: Any) -> None:
    given = {**ODD, name: value}
    done = run("call", log, "odd", *(f"{each}={json.dumps(given[each])}" for each in given))
    assert done.returncode == 1
    assert f"the argument '{name}'".encode() in done.stderr
    assert calls_behind(log) == []


YAML = """
# two forms of arguments
sold: {item: lamp, amount: 3}
---
sold: [desk, 4, "2026-05-01"]
---
---
closed:
---
many: [[a, 'no']]
---
sold:
  note: 2026-05-01
  item: sofa
  amount: 5
"""
LINES = b"""{"sold": {"item": "lamp", "amount": 3}}

{"sold": ["desk", 4, "2026-05-01"]}
{"closed": null}
{"many": [["a", "no"]]}
{"topic": "sold", "message": {"item": "sofa", "amount": 5, "note": "2026-05-01"}, "position": 1}
"""
CALLS = [
    ("sold", "lamp", 3, ""),
    ("sold", "desk", 4, "2026-05-01"),
    ("closed",),
    ("many", ["a", "no"]),
    ("sold", "sofa", 5, "2026-05-01"),
]


def test_file_of_yaml_or_json_lines_is_appended(log: Path, tmp_path: Path) -> None:
    (tmp_path / "calls.yaml").write_text(YAML)
    done = run("call", log, "--file", tmp_path / "calls.yaml", "--sync")
    assert (done.returncode, done.stdout) == (0, b"appended 5 calls\n")
    assert calls_behind(log) == CALLS
    assert run("call", log, "-f", "-", feed=LINES).returncode == 0
    assert calls_behind(log, 9) == CALLS


@pytest.mark.parametrize("options", [("--json",), ()], ids=["json", "yaml"])
def test_printed_calls_can_be_called_again(
    log: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    printed = run("tail", "-n", 9, "--method", "sold", "--method", "many", *options, log).stdout
    path = tmp_path / ("calls.jsonl" if options else "calls.yml")
    path.write_bytes(printed)
    assert run("call", log, "-f", path).returncode == 0
    assert calls_behind(log) == [("sold", "desk", 1, ""), ("many", [])]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"sold": ["a", 1]}\n{"sold": "x"', "a.jsonl:2: not JSON"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n\xff', "a.jsonl:2: not JSON"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n[1]', "a.jsonl:2: not a call: expected"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n{"a": 1, "b": 2}', "one method, not 2; write each"),
        ("a.yaml", b"sold: [a, 1]\n---\nsold:\nclosed:", "a.yaml:3: a call has one method, not 2"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n{"sold": ["a"]}', "a.jsonl:2: sold needs the argument"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n{"no": ["a"]}', "a.jsonl:2: the log has no calls"),
        ("a.jsonl", b'{"sold": ["a", 1]}\n' + b"[" * 100_000, "a.jsonl:2: not JSON"),
        ("a.yaml", b"sold: [a, 1]\n---\nsold: [", ": not YAML: "),
        ("a.yaml", b"sold: [a, 1]\n---\nsold: !!python/name:os.system x", "a.yaml:3: not YAML"),
        ("a.yaml", b"sold: [a, 1]\n---\nmany: [&a [b], *a]", "a.yaml:3: not YAML: an alias is"),
        ("a.yaml", b"sold: [a, 1]\n---\n" + b"[" * 5_000, "not YAML"),
        ("a.yaml", b"sold: [a, 1]\n---\njust text", "a.yaml:3: not a call"),
    ],
)
def test_invalid_file_is_appended_up_to_its_first_wrong_call(
    log: Path, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = run("call", log, "-f", tmp_path / name)
    assert done.returncode == 1
    assert said in done.stderr.decode().replace(f"{tmp_path}/", "")
    assert done.stdout == b"appended 1 call\n"
    assert calls_behind(log) == [("sold", "a", 1, "")]


def test_file_that_is_no_text_is_refused(log: Path, tmp_path: Path) -> None:
    for content in (b"sold: [\x07]", b"\xff\xfe\xff", b"sold: \xff"):
        (tmp_path / "a.yaml").write_bytes(content)
        done = run("call", log, "-f", tmp_path / "a.yaml")
        assert (done.returncode, b"not YAML" in done.stderr) == (1, True), done
    assert calls_behind(log) == []


def test_newest_version_of_a_method_is_called(log: Path) -> None:
    class NewShop(Protocol):
        def sold(self, item: str, amount: float, till: str = "north") -> None: ...

    with commitlog.open(log) as opened:
        commitlog.method_writer(opened, NewShop).sold("sofa", 1.5)
    assert run("call", log, "sold", '"lamp"', "2.5", 'till="south"').returncode == 0
    line = run("tail", "-n", 1, "--method", "sold", "--json", log).stdout
    assert json.loads(line)["message"] == {"item": "lamp", "amount": 2.5, "till": "south"}


def test_interface_gives_the_signature_of_a_first_call(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    (tmp_path / "api.py").write_text(
        "class Shop:\n    def sold(self, item: str, amount: int = 1) -> None: ...\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "commitlog.tools.cli",
            "call",
            "log",
            "sold",
            '"a"',
            "--interface",
            "api:Shop",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"appended 1 call\n")
    assert calls_behind(tmp_path / "log", 0) == [("sold", "a", 1, "")]
