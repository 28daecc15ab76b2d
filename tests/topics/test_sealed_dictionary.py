"""Sealed topics that are compressed: what their dictionary shows, and who reads it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import topics
from commitlog.errors import KeyUnavailableError, RecordTooLargeError, UndecodableError
from commitlog.topics import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from commitlog.topics.topic_compressor import SAMPLES
from tests.topics.events import Event, events
from tests.topics.orders import Order, records
from tests.topics.sealed import NEW, OLD, RING, messages

pytest.importorskip("cryptography")
pytest.importorskip("zstandard")
EVENTS = events(700)
BOTH = KeyRing.of_text(f"{OLD}\n{NEW}")


def layers(log: commitlog.CommitLog) -> list[dict[str, Any]]:
    """The compression of each schema, in the order of the log."""
    found = []
    for record in records(log):
        if record.type == SCHEMA_TYPE and (record.key or b"").startswith(b"schema:"):
            (first, last) = json.loads(record.value)["layers"]
            assert last == {"name": "aes-256-gcm", "since": 0}
            if first not in found:
                found.append(first)
    return found


def appended(path: Path, first: int, last: int, keys: KeyRing = RING, **options: Any) -> None:
    compress = topics.Zstd(**options)
    with commitlog.topic(path, Event, keys=keys, compress=compress) as topic:
        for event in EVENTS[first:last]:
            topic.append(event)


def test_trained_dictionary_shows_nothing(tmp_path: Path) -> None:
    appended(tmp_path / "log", 0, 600)
    with commitlog.topic(tmp_path / "log", Event, keys=RING, mode="r") as topic:
        assert list(topic.tailer()) == EVENTS[:600]
        sizes = [len(record.value) for record in messages(topic.log)]
        assert sum(sizes[SAMPLES:]) < sum(sizes[:SAMPLES]) * (600 - SAMPLES) / SAMPLES / 2
        assert [sorted(each) for each in layers(topic.log)] == [
            ["name"],
            ["data_key", "name", "sealed_dictionary"],
        ]
    for path in (tmp_path / "log").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            decoded = [
                base64.b64decode(each) for each in re.findall(rb"[\w/+]{400,}={0,2}", content)
            ]
            assert not any(b"order.shipped" in part for part in (content, *decoded))


def test_later_open_uses_the_sealed_dictionary(tmp_path: Path) -> None:
    appended(tmp_path / "log", 0, 300)
    for first in (300, 400):
        appended(tmp_path / "log", first, first + 100)
    with commitlog.topic(tmp_path / "log", Event, keys=RING) as topic:
        assert len(layers(topic.log)) == 2
        assert list(topic.tailer()) == EVENTS[:500]
        assert len({record.type for record in messages(topic.log)[300:]}) == 1


def test_short_programs_train_on_sealed_messages_of_earlier_ones(tmp_path: Path) -> None:
    for first in range(0, 400, 100):
        appended(tmp_path / "log", first, first + 100)
    with commitlog.topic(tmp_path / "log", Event, keys=RING) as topic:
        assert ["data_key" in each for each in layers(topic.log)] == [False, True]
        assert list(topic.tailer()) == EVENTS[:400]


def test_new_key_seals_a_new_dictionary(tmp_path: Path) -> None:
    appended(tmp_path / "log", 0, 300)
    appended(tmp_path / "log", 300, 600, keys=BOTH)
    with commitlog.topic(tmp_path / "log", Event, keys=BOTH) as topic:
        assert list(topic.tailer()) == EVENTS[:600]
        assert len(layers(topic.log)) == 3
        behind = messages(topic.log)[300].position
    newer = KeyRing.of_text(NEW)  # the old key is no longer needed for what follows
    with commitlog.topic(tmp_path / "log", Event, keys=newer) as topic:
        assert list(topic.tailer(start=behind)) == EVENTS[300:600]


def test_given_dictionary_is_sealed_once(tmp_path: Path) -> None:
    given = b"a desk lamp with a green shade" * 8
    for _ in range(2):
        appended(tmp_path / "log", 0, 10, dictionary=given)
    appended(tmp_path / "log", 0, 10, dictionary=given[1:])
    with commitlog.topic(tmp_path / "log", Event, keys=RING) as topic:
        assert [sorted(each) for each in layers(topic.log)] == [
            ["data_key", "name", "sealed_dictionary"]
        ] * 2
        assert list(topic.tailer()) == EVENTS[:10] * 3


def test_damaged_or_foreign_dictionary_is_refused(tmp_path: Path) -> None:
    appended(tmp_path / "log", 0, 2, dictionary=b"a desk lamp" * 9)
    with commitlog.topic(tmp_path / "log", Event, keys=RING) as topic:
        form = layers(topic.log)[0]
        sealed = base64.b64decode(form["sealed_dictionary"])
        flipped = base64.b64encode(sealed[:-1] + bytes([sealed[-1] ^ 1])).decode()
        for change, match in (
            ({"sealed_dictionary": flipped}, "dictionary of its schema is not authentic"),
            ({"sealed_dictionary": "*"}, "dictionary of its schema is damaged"),
            ({"data_key": 3}, "dictionary of its schema is damaged"),
            ({"data_key": "{}"}, "record of its data key is damaged"),
        ):
            _refused(tmp_path, form | change, UndecodableError, match)
        other = form["data_key"].replace('"2025"', '"2024"')
        _refused(tmp_path, form | {"data_key": other}, KeyUnavailableError, "'2024' is not in the")


def _refused(folder: Path, form: dict[str, Any], error: Any, match: str) -> None:
    """Append a message that is sealed behind a compression of that form, and read it."""
    from commitlog.topics import seal_layer
    from commitlog.topics.data_key import DataKey

    with commitlog.topic(folder / "log", Event, keys=RING) as topic:
        log = topic.log
        schema = Schema(
            "Event", "json", {}, layers=(form, {"name": seal_layer.NAME, seal_layer.SINCE: 0})
        )
        data_key = DataKey.new(RING, log, schema.number)
        for key, value in ((schema.key, schema.value), data_key.record):
            log.append(value, key=key, type=SCHEMA_TYPE)
        position = log.append(data_key.seal_all([b""], [None])[0], type=schema.number)
        with pytest.raises(error, match=match) as caught:
            topic.tailer(start=position).read()
        assert (caught.value.path, caught.value.position) == (log.path, position)


def test_log_without_room_for_a_sealed_dictionary_is_refused(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        most = topics.Zstd(dictionary=bytes(5600))
        commitlog.topic(log, Order, name="plain", compress=most)
        with pytest.raises(RecordTooLargeError, match="larger segment_size"):
            commitlog.topic(log, Order, compress=most, keys=RING)
