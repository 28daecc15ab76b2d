"""The codecs of Avro, Protocol Buffers and Arrow: equal messages, versions, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import commitlog
from commitlog import topics
from commitlog.errors import (
    InvalidOptionError,
    MessageError,
    MessageValueError,
    MissingExtraError,
    SchemaError,
    UndecodableError,
)
from tests.tools.cli.program import run as run_command
from tests.topics.orders import Order, records


def avro(*fields: Any) -> topics.AvroCodec:
    return topics.AvroCodec(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": name, "type": kind, **more} for name, kind, more in fields],
        }
    )


AVRO = avro(("id", "int", {}), ("item", "string", {}))


def protobuf(**fields: tuple[int, str]) -> Any:
    """Make a class as protoc does; each field has its number and its type."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="t", syntax="proto3")
    message = file.message_type.add(name="Order")
    for name, (number, kind) in fields.items():
        field = message.field.add(name=name, number=number)
        repeated = kind.endswith("*")
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.rstrip('*')}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Order"))


PROTOBUF = protobuf(id=(1, "INT32"), item=(2, "STRING"))
ARROW = topics.ArrowCodec(pa.schema([("id", pa.int32()), ("item", pa.string())]))


def rows(*values: Any, schema: Any = None) -> Any:
    return pa.RecordBatch.from_pylist(list(values), schema=schema or ARROW._schema)


CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "avro": (dict, AVRO, {"id": 1, "item": "lamp"}, {"id": 1, "item": "lamp"}),
    "protobuf": (PROTOBUF, None, PROTOBUF(id=1, item="lamp"), {"id": 1, "item": "lamp"}),
    "arrow": (pa.RecordBatch, ARROW, rows({"id": 1, "item": "lamp"}), [{"id": 1, "item": "lamp"}]),
}


def opened(path: Path, kind: Any, codec: Any, **options: Any) -> topics.Topic[Any]:
    return commitlog.topic(path, kind, name="orders", codec=codec, **options)


@pytest.mark.parametrize("name", CASES)
def test_message_is_read_as_an_equal_one(tmp_path: Path, name: str) -> None:
    kind, codec, message, _ = CASES[name]
    with opened(tmp_path / "log", kind, codec) as topic:
        topic.append(message)
        topic.append_many([message, message])
        assert list(topic.tailer()) == [message] * 3
    with opened(tmp_path / "log", kind, codec, mode="r") as topic:
        assert topic.tailer().read() == message


@pytest.mark.parametrize("name", CASES)
def test_shell_decodes_without_the_class(tmp_path: Path, name: str) -> None:
    kind, codec, message, plain = CASES[name]
    with opened(tmp_path / "log", kind, codec) as topic:
        topic.append(message)
    done = run_command("cat", "--decode", tmp_path / "log")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == plain


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("value", [b"", b"\xff" * 20])
def test_broken_bytes_raise_with_their_position(tmp_path: Path, name: str, value: bytes) -> None:
    kind, codec, message, _ = CASES[name]
    with opened(tmp_path / "log", kind, codec) as topic:
        number = topic.log.read(topic.append(message)).type
        position = topic.log.append(value, type=number)
        tailer = topic.tailer()
        assert tailer.read() == message
        if name == "protobuf" and not value:  # is a message with defaults
            assert tailer.read() == PROTOBUF()
            return
        with pytest.raises(UndecodableError) as caught:
            tailer.read()
        assert (caught.value.position, caught.value.topic) == (position, "orders")


OTHER_ARROW = pa.schema([("id", pa.int64()), ("note", pa.string())])
VERSIONS: list[tuple[Any, Any, Any, Any, Any, Any]] = [
    (
        *("avro", CASES["avro"], dict),
        avro(
            *(("id", "long", {}), ("name", "string", {"aliases": ["item"]})),
            ("note", "string", {"default": "none"}),
        ),
        *({"id": 1, "name": "lamp", "note": "none"}, None),
    ),
    ("avro", CASES["avro"], dict, avro(("id", "string", {})), None, "$.id"),
    ("avro", CASES["avro"], dict, avro(("id", "int", {}), ("size", "int", {})), None, "$.size"),
    (
        *("protobuf", CASES["protobuf"], protobuf(id=(1, "INT64"), note=(3, "STRING"))),
        *(None, {"id": 1, "note": ""}, None),
    ),
    ("protobuf", CASES["protobuf"], protobuf(id=(1, "STRING")), None, None, "$.id"),
    ("protobuf", CASES["protobuf"], protobuf(id=(1, "INT32*")), None, None, "$.id"),
    ("protobuf", CASES["protobuf"], protobuf(size=(9, "INT32")), None, None, "$"),
    (
        *("arrow", CASES["arrow"], pa.RecordBatch, topics.ArrowCodec(OTHER_ARROW)),
        *([{"id": 1, "note": None}], None),
    ),
    (
        *("arrow", CASES["arrow"], pa.RecordBatch),
        topics.ArrowCodec(pa.schema([("id", pa.string())])),
        *(None, "$.id"),
    ),
    (
        *("arrow", CASES["arrow"], pa.RecordBatch),
        topics.ArrowCodec(pa.schema([pa.field("size", pa.int8(), nullable=False)])),
        *(None, "$.size"),
    ),
]


@pytest.mark.parametrize("case", range(len(VERSIONS)))
def test_other_version_is_read_or_refused_at_a_field(tmp_path: Path, case: int) -> None:
    name, (kind, codec, message, _), read, reader, expected, field = VERSIONS[case]
    with opened(tmp_path / "log", kind, codec) as topic:
        topic.append(message)
    if field is not None:
        with pytest.raises(SchemaError, match="cannot be read at") as caught:
            opened(tmp_path / "log", read, reader)
        assert caught.value.field == field
        return
    with opened(tmp_path / "log", read, reader) as topic:
        (found,) = topic.tailer()
    if name == "protobuf":
        found = {each: getattr(found, each) for each in expected}
    assert (found.to_pylist() if name == "arrow" else found) == expected


def test_codec_of_another_family_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "log", Order, "json") as topic:
        topic.append(Order(1))
    for kind, codec, *_ in CASES.values():
        with pytest.raises(SchemaError, match=r"codec 'json', which the codec '\w+' cannot decode"):
            opened(tmp_path / "log", kind, codec)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("avro", {"id": "one", "item": "lamp"}),
        ("avro", {"id": 1}),
        ("arrow", rows({}, schema=OTHER_ARROW)),
    ],
)
def test_message_that_does_not_fit_the_schema_appends_nothing(
    tmp_path: Path, name: str, message: Any
) -> None:
    kind, codec, *_ = CASES[name]
    with opened(tmp_path / "log", kind, codec) as topic:
        with pytest.raises(MessageValueError):
            topic.append(message)
        assert records(topic.log) == []


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: topics.AvroCodec({"type": "nothing"}), MessageError, "not an Avro schema"),
        (lambda: topics.AvroCodec("{"), MessageError, "not an Avro schema"),
        (lambda: topics.ArrowCodec(7), MessageError, "must be a pyarrow.Schema"),  # type: ignore[arg-type]
        (
            lambda: topics.ArrowCodec(pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))])),
            *(MessageError, "has a dictionary"),
        ),
    ],
)
def test_bad_schema_is_refused(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    ("kind", "codec", "error", "match"),
    [
        (dict, "avro", InvalidOptionError, r"use codec=topics\.AvroCodec\(schema\)"),
        (dict, "arrow", InvalidOptionError, r"use codec=topics\.ArrowCodec\(schema\)"),
        (Order, "protobuf", MessageError, "not a class of Protocol Buffers"),
        (Order, AVRO, InvalidOptionError, "encodes <class 'dict'>, not"),
    ],
)
def test_codec_that_does_not_go_with_the_class_is_refused(
    tmp_path: Path, kind: Any, codec: Any, error: type[Exception], match: str
) -> None:
    with commitlog.open(tmp_path / "log") as log, pytest.raises(error, match=match):
        commitlog.topic(log, kind, codec=codec)


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("fastavro", "avro", lambda: topics.AvroCodec({"type": "record"})),
        ("pyarrow", "arrow", lambda: topics.ArrowCodec(pa.schema([]))),
    ],
)
def test_missing_package_of_a_codec_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, make: Any
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}: .*\[{extra}\]"):
        make()
