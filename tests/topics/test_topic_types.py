"""Views of topics: all messages of one topic, of every version of its schema."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import InvalidOptionError, TopicNotFoundError
from tests.topics.orders import Order
from tests.topics.sealed import RING

SEGMENT = 64 << 10


class Later(msgspec.Struct):
    id: int
    note: str = ""


def opened(path: Path) -> CommitLog:
    return commitlog.open(path / "log", segment_size=SEGMENT, flush="none")


def ids(log: CommitLog, **selection: object) -> list[int]:
    return [int(record.key or b"-1") for record in log.view(**selection)]  # type: ignore[arg-type]


def test_view_of_a_topic_has_all_versions_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log, commitlog.topic(log.path, Later, name="orders") as second:
        first = commitlog.topic(log, Order, name="orders")
        other = commitlog.topic(log, Later, name="others")
        kinds = [(first, Order), (other, Later), (other, Later), (second, Later)]
        expected = []
        for number in range(4000):
            topic, kind = kinds[number % 4]
            topic.append(kind(number), key=b"%d" % number)
            expected += [number] if number % 4 in (0, 3) else []
        log.delete_before(0)  # seals
        for _ in range(2):  # without lists, then with some
            assert ids(log, topic="orders") == expected
        assert ids(log, topic="orders", direction="backward") == expected[::-1]
        assert ids(log, topic="orders", key=b"3000") == [3000]
        assert ids(log, topic="orders", key=b"3001") == []
        assert [record.key for record in log.find(b"3001", topic="others")] == [b"3001"]
        with commitlog.open(log.path, "r") as reader:
            assert ids(reader, topic="orders") == expected


def test_view_learns_of_a_version_that_comes_later(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        first = commitlog.topic(log, Order, name="orders")
        first.append(Order(1), key=b"1")
        reader = commitlog.open(log.path, "r")
        tailer = reader.view(topic="orders")
        assert [record.key for record in tailer] == [b"1"]
        with commitlog.topic(log.path, Later, name="orders") as second:
            second.append(Later(2), key=b"2")
            for number in range(2000):
                first.append(Order(number), key=b"f")
                second.append(Later(number), key=b"s")
        read = [record.key for record in tailer]
        assert read == [b"2", *[b"f", b"s"] * 2000]
        reader.close()


def test_view_that_jumps_over_a_version_reads_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log, commitlog.open(log.path, "r") as reader:
        first = commitlog.topic(log, Order, name="orders")
        first.append(Order(1), key=b"1")
        log.commit()
        forward = reader.view(topic="orders")
        backward = reader.view(topic="orders", direction="backward")
        own = log.view(topic="orders", key=b"3")
        with commitlog.topic(log.path, Later, name="orders") as second:
            second.append(Later(2), key=b"2")
            log.commit()
            forward.seek("end")
            second.append(Later(3), key=b"3")
            log.commit()
        assert [record.key for record in forward] == [b"3"]
        backward.seek("end")
        assert [record.key for record in backward] == [b"3", b"2", b"1"]
        own.seek(reader.tailer(start="end", direction="backward").read().position)  # type: ignore[union-attr]
        assert [record.key for record in own] == [b"3"]


def test_key_of_a_later_version_is_sought(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        commitlog.topic(log, Order, name="orders").append(Order(1), key=b"1")
        tailer = log.view(topic="orders", direction="backward")
        with commitlog.topic(log.path, Later, name="orders") as second:
            second.append(Later(2), key=b"2")
        tailer.direction = "forward"
        tailer.seek("end")
        tailer.direction = "backward"
        assert tailer.seek(key=b"2")
        assert [record.key for record in tailer] == [b"2", b"1"]


def test_view_of_no_topic_names_those_there_are(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        commitlog.topic(log, Order, name="orders").append(Order(1))
        with pytest.raises(TopicNotFoundError, match="orders"):
            log.view(topic="order")


def test_key_of_a_topic_with_sealed_keys_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    with opened(tmp_path) as log:
        orders = commitlog.topic(log, Order, name="orders", keys=RING, seal_keys=True)
        orders.append(Order(1), key=b"secret")
        assert len(list(log.view(topic="orders"))) == 1
        with pytest.raises(InvalidOptionError, match="sealed"):
            log.view(topic="orders", key=b"secret")
