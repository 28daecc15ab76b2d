"""Maps, structs and lists of `topics.to_arrow` have the shape of the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import commitlog
from commitlog import topics
from tests.topics.test_codecs import PROTOBUF


class Node(msgspec.Struct):
    id: int
    next: Node | None = None


class Maps(msgspec.Struct):
    m: dict[str, float | None]
    numbers: dict[int, list[str]] | None = None
    nested: list[dict[str, int]] = []
    free: dict[str, Any] = {}


def column(log: commitlog.CommitLog, name: str) -> Any:
    return topics.to_arrow(log)["message"].combine_chunks().field(name)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_dict_is_a_map(tmp_path: Path, codec: Any) -> None:
    with commitlog.topic(tmp_path / "log", Maps, codec=codec) as topic:
        topic.append_many(
            [
                Maps({"a": 1.0}, {1: ["x"]}, [{"a": 1}, {}]),
                Maps({}),
                Maps({"b": None}, {}, [], {"a": 1, "b": [{"c": "x"}]}),
            ]
        )
        found = column(topic.log, "Maps")
    assert found.field("m").to_pylist() == [[("a", 1.0)], [], [("b", None)]]
    assert pa.types.is_map(found.type.field("m").type)
    key = 1 if codec == "msgpack" else "1"
    assert found.field("numbers").to_pylist() == [[(key, ["x"])], None, []]
    assert found.field("nested").to_pylist() == [[[("a", 1)], []], [], []]
    assert found.field("free").to_pylist()[0] in ([], "{}")


def test_memory_grows_with_the_messages(tmp_path: Path) -> None:
    sizes = []
    for count in (500, 2000):
        with commitlog.topic(tmp_path / f"log{count}", Maps) as topic:
            topic.append_many([Maps({f"user-{i}": 1.0}) for i in range(count)])
            sizes.append(topics.to_arrow(topic.log).nbytes)
    assert sizes[1] < 5 * sizes[0]


def test_object_within_itself_is_text(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Node) as topic:
        topic.append(Node(1, Node(2)))
        assert column(topic.log, "Node").to_pylist() == [
            {"id": 1, "next": '{"id": 2, "next": null}'}
        ]


def test_versions_of_a_topic_share_their_columns(tmp_path: Path) -> None:
    before = msgspec.defstruct("T", [("m", dict[str, int]), ("old", int)])
    after = msgspec.defstruct("T", [("m", dict[str, int]), ("new", str, "x")])
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, before, name="t").append(before(m={"a": 1}, old=1))
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, after, name="t").append(after(m={"b": 2}))
        found = column(log, "t").to_pylist()
    assert found == [
        {"m": [("a", 1)], "old": 1, "new": None},
        {"m": [("b", 2)], "old": None, "new": "x"},
    ]


def test_default_of_protocol_buffers_is_a_value(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", PROTOBUF, name="t") as topic:
        topic.append(PROTOBUF(id=0, item=""))
        assert column(topic.log, "t").to_pylist() == [{"id": 0, "item": ""}]


def test_unknown_keys_of_a_foreign_program_are_bounded(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Node) as topic:
        number = topic.log.read(topic.append(Node(1))).type
        values = [msgspec.json.encode({"id": 1, f"key-{i}": i}) for i in range(3000)]
        topic.log.append_many(values, types=[number] * len(values))
        table = topics.to_arrow(topic.log)
    assert table.nbytes < 2_000_000


def test_message_of_a_deep_nest_is_text(tmp_path: Path) -> None:
    kind = msgspec.defstruct("Open", [("content", Any)])
    with commitlog.topic(tmp_path / "log", kind, name="t") as topic:
        number = topic.log.read(topic.append(kind(1))).type
        topic.log.append(b'{"content":' + b"[" * 800 + b"]" * 800 + b"}", type=number)
        _, text = column(topic.log, "t").to_pylist()
    assert text.count("[") == 800
