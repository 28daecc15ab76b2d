"""`--decode`: messages as JSON or YAML, by the schemas of the log; which ones are printed."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

import commitlog
from commitlog import topics
from commitlog.tools.cli import message_lines
from commitlog.topics.history import HEAD, HOP
from tests.tools.cli.program import ROOT, read_until, run, started
from tests.topics.orders import Order, Refund
from tests.topics.test_topic import PRICE, Price

ORDER = {"id": 1, "item": "lamp", "amount": "12.50", "at": "2026-05-01T12:30:00Z"}
PRICE_FIELDS = {
    "side": 2,
    "price": 2.5,
    "at": 1777638600000000000,
    "name": "lamp",
    "tag": "YWJjZA==",
    "note": "eHk=",
    "levels": [1, 2],
}


class Shop(Protocol):
    def sold(self, item: str) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with commitlog.open(path) as opened:
        opened.append(b"plain")
        commitlog.topic(opened, Order).append(Order(1), key=b"k")
        commitlog.topic(opened, Refund, codec="msgpack").append(Refund(1))
        commitlog.topic(opened, Price).append(PRICE)
    return path


def test_cat_prints_messages_as_json_without_schemas(log: Path) -> None:
    done = run("cat", "--decode", log)
    plain, *messages = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr, plain) == (0, b"", "plain")
    assert list(map(json.loads, messages)) == [ORDER, {"order": 1}, PRICE_FIELDS]


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_json_lines_have_topic_and_message(log: Path, command: str) -> None:
    done = run(command, "--decode", "--json", log)
    plain, order, refund, price = map(json.loads, done.stdout.decode().splitlines())
    assert (plain["value"], "topic" in plain) == ("plain", False)
    assert (order["topic"], order["message"], order["key"]) == ("Order", ORDER, "k")
    assert (refund["topic"], refund["message"]) == ("Refund", {"order": 1})
    assert (price["topic"], price["message"]) == ("Price", PRICE_FIELDS)
    assert "value" not in order
    assert order["position"] > plain["position"]


@pytest.fixture
def handled(log: Path) -> tuple[Path, topics.History]:
    """Return the log with an order that was written for another, and its history."""
    with commitlog.topic(log, Order) as orders:
        with orders.tailer() as tailer, tailer.reading():
            orders.append(Order(7), key=b"seven")
        last = orders.log.read(orders.log.last_position or 0)
        history = topics.history_of(orders.log, last)
    assert history is not None
    return log, history


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_json_lines_have_the_history(handled: tuple[Path, topics.History], command: str) -> None:
    path, history = handled
    done = run(command, "--history", "--json", path)
    *others, last = map(json.loads, done.stdout.decode().splitlines())
    assert not any("history" in other for other in others)
    (hop,) = last["history"]["hops"]
    assert uuid.UUID(hop.pop("source")) == history.hops[0].source
    assert hop == {
        name: getattr(history.hops[0], name) for name in ("position", "written_ns", "read_ns")
    }
    assert (last["message"]["id"], last["history"]["written_ns"]) == (7, history.written_ns)


def test_yaml_has_a_comment_for_each_hop(handled: tuple[Path, topics.History]) -> None:
    path, history = handled
    first, second, third, *_ = (
        run("tail", "-n", 1, "--history", "-z", "Europe/Berlin", path).stdout.decode().splitlines()
    )
    assert first.startswith("--- # ")
    hop = history.hops[0]
    assert second.startswith(f"# through {hop.source} at {hop.position}, written 20")
    assert (second.count("+0"), third) == (2, "Order:")


def test_absurd_times_of_a_hop_are_printed(handled: tuple[Path, topics.History]) -> None:
    path, _ = handled
    with commitlog.open(path) as log:
        number = log.read(log.last_position or 0).type
        hop = HOP.pack(bytes(16), -1, (1 << 63) - 1, -(1 << 63))
        log.append(HEAD.pack(1, 1, 5, 0, 0) + hop + b'{"id":8}', type=number)
    for zone in ("UTC", "local", "Europe/Berlin"):
        done = run("tail", "-n", 1, "--history", "-z", zone, path)
        assert (done.returncode, done.stderr) == (0, b"")
        lines = done.stdout.decode().splitlines()
        assert lines[1] == "# through 5 earlier logs"
        assert lines[2].startswith(f"# through {uuid.UUID(int=0)} at -1, written 2262-04-")


@pytest.mark.parametrize(
    "given", [("cat",), ("cat", "--format", "csv"), ("tail", "--format", "{value}")]
)
def test_history_in_other_formats_is_refused(log: Path, given: tuple[str, ...]) -> None:
    done = run(*given, "--history", log)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--history needs --json, or `commitlog tail` without --format" in done.stderr


def test_limits_do_not_count_schemas(log: Path) -> None:
    for options in (("cat", "--limit", 2), ("tail", "-n", 2), ("tail", "--limit", 2)):
        done = run(*options, "--decode", "--format", r"{value}\n", log)
        assert len(done.stdout.splitlines()) == 2, options
        assert b"schema" not in done.stdout


def test_csv_and_tables_hold_json(log: Path, tmp_path: Path) -> None:
    done = run("cat", "--decode", "--format", "csv", log)
    header, _, order, *_ = done.stdout.decode().splitlines()
    assert header.startswith("position,")
    assert '""item"": ""lamp""' in order
    import pyarrow.parquet as pq

    assert run("cat", "--decode", "-o", tmp_path / "a.parquet", log).returncode == 0
    values = pq.read_table(tmp_path / "a.parquet")["value"].to_pylist()
    assert [json.loads(value) for value in values[1:]] == [ORDER, {"order": 1}, PRICE_FIELDS]


def test_undecodable_message_is_reported_and_kept(log: Path) -> None:
    with commitlog.open(log) as opened:
        order = next(record.type for record in opened.tailer() if record.key == b"k")
        position = opened.append(b"{", type=order)
        unknown = opened.append(b"?", type=0xC123_4567)
    done = run("cat", "--decode", log)
    assert done.returncode == 1
    assert done.stdout.endswith(b"\n{\n?\n")
    first, second = done.stderr.decode().splitlines()
    assert first.endswith(f"position {position}")
    assert second == (
        "commitlog: a message cannot be decoded: no schema of its type number is in the log: "
        f"position {unknown}"
    )


def test_tail_prints_messages_as_yaml(log: Path) -> None:
    done = run("tail", "--decode", log)
    assert (done.returncode, done.stderr) == (0, b"")
    plain, order, refund, price = yaml.load_all(done.stdout, yaml.BaseLoader)
    assert plain == "plain"
    assert (order, refund) == ({"Order": {**ORDER, "id": "1"}}, {"Refund": {"order": "1"}})
    assert price["Price"]["levels"] == ["1", "2"]
    heads = [line for line in done.stdout.decode().splitlines() if line.startswith("--- ")]
    assert re.fullmatch(r'--- # \d+ 20\S+Z "k"', heads[1])
    assert [head.split()[2] for head in heads] == [
        line.split(b" ")[0].decode()
        for line in run("tail", "--decode", "--format", "{position} \n", log).stdout.splitlines()
    ]


values = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | some.text()
    | some.sampled_from(["yes", "Null", "1e5", "~", "- a", "a: b", "a #b", "=", "<<", "0o7", " a"]),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=10,
)


@given(values)
def test_any_message_is_read_back_from_its_lines(message: Any) -> None:
    lines = list(message_lines._entry("m:", message, "  "))
    assert all(line.isprintable() for line in lines)
    assert yaml.safe_load("\n".join(lines)) == {"m": message}


@pytest.mark.parametrize("depth", [40, 900, 100_000])
def test_deeply_nested_message_is_printed_or_reported(tmp_path: Path, depth: int) -> None:
    with commitlog.topic(tmp_path / "log", list) as lists:
        lists.append([])
        number = lists.log.read(lists.log.last_position or 0).type
        lists.log.append(b"[" * depth + b"1" + b"]" * depth, type=number)
    for options in ([], ["--json"], ["--where", "3 > 1"]):
        done = run("tail", "--decode", *options, tmp_path / "log")
        assert b"Traceback" not in done.stderr
        assert done.returncode == (1 if done.stderr else 0)
        assert bool(done.stderr) == (depth > 1000) or depth == 900


def test_field_that_no_message_has_is_reported(log: Path) -> None:
    for command in ("cat", "tail"):
        done = run(command, "--where", "amont > 3 or customer.city == Rome", log)
        assert (done.returncode, done.stdout) == (0, b"")
        text = done.stderr.decode()
        assert text == "commitlog: --where: no message has amont and no customer.city and no Rome\n"


def test_where_and_topic_choose_messages(log: Path) -> None:
    def chosen(*options: str) -> list[str]:
        done = run("tail", "--json", *options, log)
        assert (done.returncode, done.stderr) == (0, b"")
        return [json.loads(line)["topic"] for line in done.stdout.splitlines()]

    assert chosen("--where", "amount > 12 and item == 'lamp'") == ["Order"]
    assert chosen("--where", "order = 1 or price < 3") == ["Refund", "Price"]
    assert chosen("--where", "levels[1] = 2", "-n", "1") == ["Price"]
    assert chosen("--where", "id > 1") == []
    assert chosen("--topic", "Order", "--method", "Price") == ["Order", "Price"]
    assert chosen("--topic", "Order", "--where", "id = 7") == []
    assert chosen("--topic", "Refund", "-n", "5", "--reverse") == ["Refund"]


def test_limit_counts_messages_that_meet_the_condition(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Refund) as refunds:
        refunds.append_many([Refund(number) for number in range(1000)])
    shown = r"{value}\n"
    for options, expected in (
        (("tail", "-n", 3), [880, 890, 900]),
        (("cat", "--limit", 2), [10, 20]),
        (("tail", "--reverse", "--limit", 2), [900, 890]),
    ):
        done = run(
            *options,
            "--where",
            "order in [10, 20, 880, 890, 900]",
            "--format",
            shown,
            tmp_path / "log",
        )
        assert [json.loads(line)["order"] for line in done.stdout.splitlines()] == expected


def test_undecodable_message_under_where_is_reported_once(log: Path) -> None:
    with commitlog.open(log) as opened:
        order = next(record.type for record in opened.tailer() if record.key == b"k")
        opened.append(b"{", type=order)
        commitlog.topic(opened, Order).append(Order(1))
    for options in (("tail",), ("tail", "--topic", "Order"), ("cat", "--json")):
        done = run(*options, "--where", "id = 1", log)
        assert done.returncode == 1
        assert done.stderr.count(b"\n") == 1
    done = run("tail", "-n", 1, "--where", "id = 1", log)  # behind it
    assert (done.returncode, done.stderr) == (0, b"")
    assert run("tail", "--topic", "Refund", log).returncode == 0  # of another topic


def test_missing_topic_and_bad_condition_are_refused(log: Path) -> None:
    done = run("cat", "--topic", "Nothing", log)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the log has no topic 'Nothing'" in done.stderr
    done = run("tail", "--where", "amount >", log)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"missing at the end" in done.stderr


def test_follower_waits_for_a_method(log: Path) -> None:
    with started("tail", "-f", "--method", "sold", log) as process:
        with commitlog.open(log) as opened:
            commitlog.method_writer(opened, Shop).sold("lamp")
        assert process.stdout is not None
        assert b"Z\nsold:\n  item: lamp\n" in read_until(process.stdout.fileno(), b"lamp\n")


def test_json_is_decoded_without_msgspec(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    code = (
        "import sys; sys.modules['msgspec'] = None\n"
        "from commitlog.tools.cli import run; sys.exit(run(['cat', '--decode', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, ORDER)


def test_odd_values_are_printed_as_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as opened:
        numbers: topics.Topic[Any] = commitlog.topic(opened, float, name="f", codec="msgpack")
        for number in (math.nan, math.inf, -math.inf):
            numbers.append(number)
        texts: topics.Topic[Any] = commitlog.topic(opened, str, name="s")
        kind = opened.read(texts.append("a\u009b31m\u202e\x7f")).type
        opened.append(rb'"\ud800"', type=kind)
        opened.append(b"[" * 700 + b"NaN" + b"]" * 700, type=kind)
    done = run("cat", "--decode", "--json", path)

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    lines = [json.loads(line, parse_constant=refused) for line in done.stdout.splitlines()]
    found = [each["message"] for each in lines if "message" in each]
    assert found == ["NaN", "Infinity", "-Infinity", "a\u009b31m\u202e\x7f", "\ud800"]
    assert done.stdout.isascii()
    assert done.returncode == 1
    assert b"nested too deeply" in done.stderr
    for arguments in (["tail", "--decode"], ["cat", "--decode"]):
        assert b"Traceback" not in run(*arguments, path).stderr
