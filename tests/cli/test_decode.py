"""`--decode`: messages as JSON, by the schemas of the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import commitlog
from tests.cli.program import ROOT, run
from tests.messages.orders import Order, Refund
from tests.messages.test_topic import PRICE, Price

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


def test_json_is_decoded_without_msgspec(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    code = (
        "import sys; sys.modules['msgspec'] = None\n"
        "from commitlog.cli import run; sys.exit(run(['cat', '--decode', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, ORDER)
