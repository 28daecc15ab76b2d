"""Compressed topics: what they save, who reads them, and what damage does."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

import commitlog
from commitlog import topics
from commitlog.errors import (
    InvalidOptionError,
    MissingExtraError,
    RecordTooLargeError,
    RecordTypeError,
    SchemaError,
    UndecodableError,
)
from commitlog.topics.schema import SCHEMA_TYPE, Schema, is_message_type, key_of, number_of
from commitlog.topics.topic_compressor import SAMPLES
from tests.tools.cli.program import run as run_command
from tests.topics.events import Event, events
from tests.topics.orders import Order, ended, records, run

EVENTS = events(1000)
SEGMENT = "256KiB"
UNLOADABLE = b"\x37\xa4\x30\xec" + bytes(60)  # a dictionary by its first bytes, and damaged
ENCODED = base64.b64encode(UNLOADABLE).decode()


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        yield opened


def messages(log: commitlog.CommitLog) -> list[commitlog.Record]:
    return [record for record in records(log) if is_message_type(record.type)]


def layers(log: commitlog.CommitLog) -> list[list[dict[str, str]]]:
    """The layers of each schema, in the order of the log."""
    found: list[list[dict[str, str]]] = []
    for record in records(log):
        if record.type == SCHEMA_TYPE:
            content = json.loads(record.value).get("layers", [])
            if content not in found:
                found.append(content)
    return found


# --- what is saved --------------------------------------------------------------------------------


def test_single_messages_of_1_kb_become_4_times_smaller(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Event, compress="zstd")
    for event in EVENTS:
        topic.append(event)
    before = sum(len(msgspec.json.encode(event)) for event in EVENTS[SAMPLES:])
    after = sum(len(record.value) for record in messages(log)[SAMPLES:])
    assert before / len(EVENTS[SAMPLES:]) > 900
    assert before >= 4 * after
    assert list(topic.tailer()) == EVENTS


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_messages_are_read_with_and_without_the_option(tmp_path: Path, codec: Any) -> None:
    with commitlog.topic(tmp_path / "log", Event, codec=codec, compress="zstd") as topic:
        topic.append_many(EVENTS[:600], keys=[b"%d" % n for n in range(600)])
        topic.append(EVENTS[600], key=b"600", timestamp_ns=5, sync=True)
    with commitlog.topic(tmp_path / "log", Event, codec=codec) as plain:
        plain.append(EVENTS[601], key=b"601")
        tailer = plain.tailer()
        for number, found in enumerate(tailer):
            assert found == EVENTS[number]
            assert tailer.record is not None
            assert tailer.record.key == b"%d" % number
        assert number == 601
    with commitlog.topic(tmp_path / "log", Event, codec=codec, mode="r") as topic:
        assert list(topic.tailer()) == EVENTS[:602]


def test_async_appends_are_compressed(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Event, compress="zstd")

    async def append_and_read() -> list[Event]:
        for event in EVENTS[:3]:
            await topic.append_async(event)
        return [each async for each in topic.tailer().follow(timeout=0)]

    assert asyncio.run(append_and_read()) == EVENTS[:3]
    assert all(len(record.value) < 700 for record in messages(log))


@pytest.mark.parametrize("once", [False, True], ids=["as written", "as one list"])
def test_outputs_with_a_history_are_compressed(tmp_path: Path, once: bool) -> None:
    class Service:
        def sold(self, number: int) -> None:
            orders.append(EVENTS[number])
            orders.append_many(EVENTS[number + 1 : number + 3])

    class Shop:
        def sold(self, number: int) -> None: ...

    with (
        commitlog.open(tmp_path / "in") as source,
        commitlog.topic(tmp_path / "out", Event, compress="zstd") as orders,
    ):
        commitlog.method_writer(source, Shop).sold(4)
        target = orders.log if once else None
        with commitlog.method_reader(source, Service(), after_last_written=target) as reader:
            assert reader.read_one()
        tailer = orders.tailer()
        for event in EVENTS[4:7]:
            assert tailer.read() == event
            assert tailer.history is not None
            assert tailer.history.hops[0].source.bytes == source.identity.uuid
        assert all(len(record.value) < 700 for record in messages(orders.log))


def test_uncompressed_topic_writes_a_schema_of_format_1(log: commitlog.CommitLog) -> None:
    commitlog.topic(log, Order).append(Order(1))
    (schema,) = [record for record in records(log) if record.type == SCHEMA_TYPE]
    content = json.loads(schema.value)
    assert content["format"] == 1
    assert sorted(content) == ["codec", "format", "schema", "topic"]


def test_given_dictionary_is_used_from_the_first_message(log: commitlog.CommitLog) -> None:
    given = msgspec.json.encode(EVENTS[0])
    compress = topics.Zstd(level=3, dictionary=given)
    topic = commitlog.topic(log, Event, compress=compress)
    topic.append(EVENTS[1])
    assert layers(log) == [[{"name": "zstd", "dictionary": base64.b64encode(given).decode()}]]
    assert len(messages(log)[0].value) < 450
    assert list(topic.tailer()) == EVENTS[1:2]


def test_given_dictionary_that_zstd_cannot_load_is_refused(log: commitlog.CommitLog) -> None:
    with pytest.raises(SchemaError, match="zstd cannot load the dictionary"):
        commitlog.topic(log, Event, compress=topics.Zstd(dictionary=UNLOADABLE))
    assert records(log) == []


@pytest.mark.parametrize("key", [5, "k"])
@pytest.mark.parametrize("compress", [None, "zstd", topics.Zstd(dictionary=b"")])
def test_key_that_is_not_bytes_is_refused(
    log: commitlog.CommitLog, compress: Any, key: Any
) -> None:
    topic = commitlog.topic(log, Event, compress=compress)
    for append in (
        lambda: topic.append(EVENTS[0], key=key),
        lambda: topic.append(EVENTS[0], key=key, expect=0),
        lambda: topic.append_many(EVENTS[:1], keys=[key]),
    ):
        with pytest.raises(RecordTypeError, match="key must be bytes"):
            append()
    assert messages(log) == []


def test_empty_dictionary_trains_none(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Event, compress=topics.Zstd(dictionary=b""))
    for event in EVENTS:
        topic.append(event)
    assert layers(log) == [[{"name": "zstd"}]]


def test_dissimilar_messages_get_no_dictionary(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, bytes, codec="msgpack", compress="zstd")
    generator = random.Random(1)
    for _ in range(SAMPLES + 10):
        topic.append(generator.randbytes(300))
    assert layers(log) == [[{"name": "zstd"}]]
    assert len(list(topic.tailer())) == SAMPLES + 10


# --- the dictionary and several handles -----------------------------------------------------------


def test_dictionary_is_in_each_segment_with_its_messages(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Event, compress="zstd", segment_size=SEGMENT) as topic:
        for event in events(3000):
            topic.append(event)
    found = 0
    for path in sorted((tmp_path / "log").glob("*.seg")):
        with commitlog.open(path, "r") as log:
            if log.count():
                found += len(list(commitlog.topic(log, Event).tailer()))
    assert found == 3000
    assert len(list((tmp_path / "log").glob("*.seg"))) > 2


def test_later_open_uses_the_trained_dictionary(tmp_path: Path) -> None:
    for first in range(0, 1000, 500):
        with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
            topic.append_many(EVENTS[first : first + 500])
            assert len(layers(topic.log)) == 1  # the list was encoded with one schema
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        assert len({record.type for record in messages(topic.log)}) == 1


def test_short_programs_train_on_the_messages_of_earlier_ones(tmp_path: Path) -> None:
    for first in range(0, 400, 100):
        with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
            for event in EVENTS[first : first + 100]:
                topic.append(event)
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        assert ["dictionary" in each[0] for each in layers(topic.log)] == [False, True]
        assert list(topic.tailer()) == EVENTS[:400]


def test_plain_topic_trains_on_its_messages_when_compressed(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Event) as topic:
        topic.append_many(EVENTS[:SAMPLES])
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        topic.append(EVENTS[0])
        assert len(messages(topic.log)[-1].value) < 300


WRITER = """
from tests.topics.events import *
topic = commitlog.topic(sys.argv[1], Event, compress="zstd", segment_size="256KiB")
for each in events(600, int(sys.argv[2])):
    topic.append(each)
topic.close()
"""


def test_processes_that_train_at_once_read_each_other(tmp_path: Path) -> None:
    writers = [run(WRITER, tmp_path / "log", seed) for seed in (1, 2, 3)]
    assert [ended(writer) for writer in writers] == [0, 0, 0]
    with commitlog.topic(tmp_path / "log", Event, mode="r") as topic:
        found = sorted(msgspec.json.encode(each) for each in topic.tailer())
    written = [msgspec.json.encode(each) for seed in (1, 2, 3) for each in events(600, seed)]
    assert found == sorted(written)


def test_threads_compress_at_once(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Event, compress="zstd")

    def work() -> None:
        for event in EVENTS[:300]:
            topic.append(event)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = [msgspec.json.encode(each) for each in topic.tailer()]
    assert sorted(found) == sorted(msgspec.json.encode(each) for each in EVENTS[:300] * 4)


# --- readers without the class --------------------------------------------------------------------


def test_shell_and_arrow_read_compressed_messages(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        for event in EVENTS[:300]:
            topic.append(event)
        table = topics.to_arrow(topic.log)
    assert [row["Event"]["id"] for row in table["message"].to_pylist()] == [
        event.id for event in EVENTS[:300]
    ]
    done = run_command("cat", "--decode", "--json", str(tmp_path / "log"))
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [line["message"]["id"] for line in lines if "message" in line] == [
        event.id for event in EVENTS[:300]
    ]
    assert done.returncode == 0


def test_error_names_the_value_of_a_compressed_message(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Order, compress="zstd")
    topic.append(Order(1, "lamp", "much"))  # type: ignore[arg-type]
    with pytest.raises(UndecodableError, match="which is 'much'"):
        topic.tailer().read()


def test_every_codec_may_be_compressed(log: commitlog.CommitLog) -> None:
    """The layers are those of the schema, so that every codec has them."""
    topic = commitlog.topic(log, dict, name="visit", codec=AVRO, compress="zstd")
    topic.append({"page": "/" * 300})
    assert len(messages(log)[0].value) < 100
    assert topic.tailer().read() == {"page": "/" * 300}


AVRO = topics.AvroCodec(
    {"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]}
)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compress", "match"),
    [
        ("gzip", 'must be "zstd" or topics.Zstd'),
        (3, 'must be "zstd" or topics.Zstd'),
    ],
)
def test_unknown_compression_is_refused(
    log: commitlog.CommitLog, compress: Any, match: str
) -> None:
    with pytest.raises(InvalidOptionError, match=match):
        commitlog.topic(log, Order, compress=compress)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"level": 23}, "from -7 to 22, not 23"),
        ({"level": True}, "from -7 to 22, not True"),
        ({"level": "fast"}, "not 'fast'"),
        ({"dictionary": "text"}, "at most 65536 bytes, not 'text'"),
        ({"dictionary": bytes(65537)}, "at most 65536 bytes, not 65537 bytes"),
    ],
)
def test_unusable_setting_of_zstd_is_refused(options: Any, match: str) -> None:
    with pytest.raises(InvalidOptionError, match=match):
        topics.Zstd(**options)


def test_message_too_large_before_compression_is_refused(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Order, compress="zstd")
    large = Order(1, "x" * (32 << 10))
    for act in (lambda: topic.append(large), lambda: topic.append_many([Order(1), large])):
        with pytest.raises(RecordTooLargeError, match="before it is compressed"):
            act()
    assert log.count() == 0


def test_log_without_room_for_a_dictionary_is_refused_at_open(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        with pytest.raises(RecordTooLargeError, match="larger segment_size") as caught:
            commitlog.topic(log, Order, compress=topics.Zstd(dictionary=bytes(8192)))
        assert caught.value.size is not None
        assert caught.value.size > 8192
        commitlog.topic(log, Order, compress=topics.Zstd(dictionary=b"")).append(Order(1))


def hostile(log: commitlog.CommitLog, value: bytes, layer: list[Any]) -> int:
    """Append a message of topic Order with these layers, as a hostile program may."""
    schema = Schema("Order", "json", {}, layers=tuple(layer))
    log.append(schema.value, key=schema.key, type=SCHEMA_TYPE)
    return log.append(value, type=schema.number)


@pytest.mark.parametrize("size", [1 << 20, 1 << 40])
def test_decompression_bomb_takes_no_memory(log: commitlog.CommitLog, size: int) -> None:
    topic = commitlog.topic(log, Order)
    frame = bytearray(zstandard.compress(bytes(1 << 20)))
    if size > 1 << 20:  # a header that claims more than there is
        frame = bytearray(b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x01\0\0")
    position = hostile(log, bytes(frame), [{"name": "zstd"}])
    with pytest.raises(UndecodableError, match=f"says it has {size} bytes") as caught:
        topic.tailer().read()
    assert caught.value.position == position


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        zstandard.compress(b"{}")[:-1],
        zstandard.compress(b"{}") + b"more",
        zstandard.ZstdCompressor(write_content_size=False).compress(b"{}"),
    ],
    ids=["empty", "plain", "truncated", "more", "no size"],
)
def test_damaged_frame_is_undecodable(log: commitlog.CommitLog, value: bytes) -> None:
    topic = commitlog.topic(log, Order)
    hostile(log, value, [{"name": "zstd"}])
    topic.append(Order(2))
    with pytest.raises(UndecodableError, match="compressed message"):
        topic.tailer().read()
    assert list(topic.tailer(on_undecodable="skip")) == [Order(2)]


def test_flipped_bits_never_end_the_interpreter(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, Event, compress="zstd")
    for event in EVENTS[: SAMPLES + 1]:
        topic.append(event)
    record = messages(log)[-1]
    for bit in range(len(record.value) * 8):
        value = bytearray(record.value)
        value[bit // 8] ^= 1 << bit % 8
        log.append(bytes(value), type=record.type)
    tailer = topic.tailer(on_undecodable="skip")
    assert len(list(tailer)) + tailer.undecodable == SAMPLES + 1 + len(record.value) * 8
    assert tailer.undecodable > 100


@pytest.mark.parametrize(
    ("layer", "match"),
    [
        ([{"name": "rot13"}], "does not know the layers rot13"),
        ([{"name": "zstd"}, {"name": "zstd"}], "does not know the layers zstd, zstd"),
        ([{"name": "zstd", "dictionary": "*"}], "dictionary of a schema is damaged"),
        ([{"name": "zstd", "dictionary": 3}], "dictionary of a schema is damaged"),
        ([{"name": "zstd", "dictionary": ENCODED}], "zstd cannot load"),
    ],
)
def test_unknown_or_damaged_layer_is_undecodable(
    log: commitlog.CommitLog, layer: list[Any], match: str
) -> None:
    topic = commitlog.topic(log, Order)
    hostile(log, b"{}", layer)
    with pytest.raises(UndecodableError, match=match):
        topic.tailer().read()


@pytest.mark.parametrize("layer", ["zstd", ["zstd"], [{}], [{"name": 3}], None])
def test_layers_of_wrong_types_are_a_damaged_schema(layer: Any) -> None:
    content = {"format": 2, "topic": "Order", "codec": "json", "schema": {}, "layers": layer}
    with pytest.raises(SchemaError, match="a schema record is damaged"):
        Schema.of_value(msgspec.json.encode(content))


def test_message_whose_dictionary_is_missing_is_undecodable(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Event, compress="zstd") as topic:
        topic.append_many(EVENTS[:300])
        message = messages(topic.log)[-1]
    with commitlog.topic(tmp_path / "other", Event) as other:
        other.log.append(message.value, type=message.type)
        with pytest.raises(UndecodableError, match="no schema of its type number"):
            other.tailer().read()


def test_missing_package_is_named_with_its_extra(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"needs zstandard: .*\[sealed\]"):
        commitlog.topic(log, Order, compress="zstd")
    hostile(log, b"", [{"name": "zstd"}])
    with pytest.raises(MissingExtraError, match=r"\[sealed\]"):
        commitlog.topic(log, Order, name="Order").tailer().read()


def test_schema_number_is_computed_from_its_bytes() -> None:
    schema = Schema("Order", "json", {}, layers=({"name": "zstd"},))
    assert schema.number == number_of(schema.value)
    assert schema.key == key_of(schema.number)
    assert Schema.of_value(schema.value) == schema
