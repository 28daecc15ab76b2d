"""`commitlog topics`: names, versions, counts and fields, without the classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

import commitlog
from commitlog.topics.fields_text import fields_text
from commitlog.topics.key_ring import VARIABLE
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from commitlog.topics.schema_form import form_of
from tests.tools.cli.program import run
from tests.topics.events import Event, events
from tests.topics.orders import Order, Refund
from tests.topics.sealed import NEW, OLD, RING
from tests.topics.test_codecs import CASES
from tests.topics.test_topic import PRICE, Price


class Shop(Protocol):
    def sold(self, item: str, amount: int = 1) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with commitlog.open(path) as opened:
        opened.append(b"plain")
        commitlog.topic(opened, Order).append_many([Order(1), Order(2)])
        commitlog.topic(opened, Refund, codec="msgpack").append(Refund(1))
        commitlog.method_writer(opened, Shop).sold("lamp")
    newer = msgspec.defstruct("Refund", [("order", int), ("note", str, "")])
    with commitlog.topic(path, newer, codec="msgpack") as refunds:
        refunds.append_many([newer(2), newer(3)])
    return path


def test_topics_have_counts_versions_and_fields(log: Path) -> None:
    done = run("topics", log)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"{log}: 3 topics, 6 messages, 4 schema records, 1 other record"
    assert lines[1].startswith("Order: json, 2 messages, 20")
    assert lines[2].endswith(
        '2 messages: id integer, amount decimal = "12.50", at string = "2026-05-01T12:30:00Z", '
        'item string = "lamp"'
    )
    assert lines[3].startswith("Refund: msgpack, 3 messages, ")
    assert lines[4].endswith("1 message: order integer")
    assert lines[5].endswith('2 messages: order integer, note string = ""')
    assert lines[7].endswith("1 message: item string, amount integer = 1")


def test_compressed_topic_shows_its_sizes(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    written = events(600)
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        topic.append_many(written)
        topic.append(written[0])
    line = run("topics", tmp_path / "log").stdout.decode().splitlines()[1]
    versions = json.loads(run("topics", "--json", tmp_path / "log").stdout)["topics"][0]["versions"]
    before = sum(each["plain_bytes"] for each in versions)
    assert before == sum(len(msgspec.json.encode(each)) for each in [*written, written[0]])
    times = before / sum(each["value_bytes"] for each in versions)
    assert times > 2
    assert line.startswith(f"Event: json, compressed {times:.1f} times, 601 messages, ")


def test_sealed_topic_hides_what_compression_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "log"
    with commitlog.topic(path, Event, compress="zstd", keys=RING) as topic:
        topic.append_many(events(10))
        stats = topic.log.stats().topics["Event"]
    for command in ("topics", "info"):
        assert "compressed, sealed" in run(command, path).stdout.decode()
    for ring, known in ((NEW, False), (OLD, True)):
        monkeypatch.setenv(VARIABLE, ring)
        (found,) = json.loads(run("topics", "--json", path).stdout)["topics"][0]["versions"]
        (newest,) = json.loads(run("info", "--json", path).stdout)["topics"]
        for each in (found, newest):
            assert each["value_bytes"] == stats.value_bytes
            assert each["plain_bytes"] == (stats.plain_bytes if known else None)
    for command in ("topics", "info"):
        shown = run(command, path).stdout.decode()
        assert f"compressed {stats.ratio:.1f} times, sealed" in shown


def test_info_has_the_topics_of_the_newest_records(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    with commitlog.open(tmp_path / "log") as opened:
        refunds = commitlog.topic(opened, Refund)
        refunds.append_many([Refund(number) for number in range(5000)])
        commitlog.topic(opened, Event, compress="zstd").append_many(events(90))
    other, newest = json.loads(run("info", "--json", tmp_path / "log").stdout)["topics"]
    assert (newest["name"], newest["layers"], newest["messages"]) == ("Refund", [], 4005)
    assert newest["plain_bytes"] == newest["value_bytes"]
    assert (other["name"], other["layers"], other["messages"]) == ("Event", ["zstd"], 90)
    times = other["plain_bytes"] / other["value_bytes"]
    line = f"topic                   Event: 90 of the newest records, compressed {times:.1f} times"
    assert line in run("info", tmp_path / "log").stdout.decode()


def test_history_counts_before_and_after(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        topic.append(events(1)[0])
        with topic.tailer() as tailer, tailer.reading():
            topic.append(events(1)[0])
    plain, carrying = json.loads(run("topics", "--json", tmp_path / "log").stdout)["topics"][0][
        "versions"
    ]
    assert carrying["plain_bytes"] == plain["plain_bytes"] + 56
    assert carrying["value_bytes"] == plain["value_bytes"] + 56


def test_json_has_the_schemas_and_positions(log: Path) -> None:
    found = json.loads(run("topics", "--json", log).stdout)
    assert (found["records"], found["schemas"], found["unreadable"]) == (11, 4, [])
    order, refund, sold = found["topics"]
    assert [each["name"] for each in found["topics"]] == ["Order", "Refund", "sold"]
    assert order["versions"][0]["schema"] == form_of(Order)
    assert [each["messages"] for each in refund["versions"]] == [1, 2]
    with commitlog.open(log, "r") as opened:
        positions = [
            record.position
            for record in opened.tailer()
            if record.type == refund["versions"][1]["type"]
        ]
    second = refund["versions"][1]
    assert [second["first_position"], second["last_position"]] == positions
    assert sold["versions"][0]["codec"] == "method"


def test_log_without_topics_has_none(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    done = run("topics", tmp_path / "log")
    assert done.stdout.decode().endswith(
        "0 topics, 0 messages, 0 schema records, 0 other records\n"
    )


def test_unreadable_schemas_are_reported(log: Path) -> None:
    with commitlog.open(log) as opened:
        opened.append(b"?", type=0xC123_4567)
        opened.append(b"{", key=b"schema:no number", type=SCHEMA_TYPE)
    done = run("topics", log)
    assert done.returncode == 1
    assert done.stdout.count(b"\n") == 8
    assert done.stderr.decode() == (
        f"commitlog: type {0xC123_4567}, 1 message: no schema of its type number is in the log\n"
    )


def test_archive_and_segment_have_topics(log: Path) -> None:
    (segment,) = log.glob("*.seg")
    assert json.loads(run("topics", "--json", segment).stdout)["topics"][0]["messages"] == 2


def test_fields_of_each_codec_are_shown() -> None:
    texts = {
        name: fields_text(Schema("t", codec.name, codec.form))
        for name, (_, codec, _, _) in CASES.items()
        if codec is not None
    }
    assert texts == {"avro": "id int, item string", "arrow": "id: int32, item: string"}
    assert fields_text(Schema("t", "fixed", {"fields": [{"name": "a", "kind": "int8"}]})) == (
        "a int8"
    )


@pytest.mark.parametrize(
    "form", [{}, {"$ref": 1}, {"$ref": "#/$defs/A"}, {"anyOf": 1}, {"fields": [1]}, {"avro": {}}]
)
@pytest.mark.parametrize("codec", ["json", "avro", "fixed", "arrow", "protobuf", "own"])
def test_odd_schema_has_no_fields_and_no_error(codec: str, form: dict[str, object]) -> None:
    assert isinstance(fields_text(Schema("t", codec, form)), str)


def test_fixed_layout_lists_its_kinds(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Price) as prices:
        prices.append(PRICE)
    assert b"price float64" in run("topics", tmp_path / "log").stdout
