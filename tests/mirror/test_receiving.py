"""A topic of a real broker to a log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import commitlog
from commitlog import CommitLog
from commitlog.errors import InUseError, MirrorError
from commitlog.mirror import from_kafka
from tests.mirror.kafka_server import KafkaServer

pytestmark = pytest.mark.long


def produce(kafka: KafkaServer, topic: str, values: list[bytes | None], **given: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, **given)
    assert producer.flush(30) == 0


@pytest.fixture
def receive(until: Callable[..., None]) -> Callable[..., None]:
    """Mirror until the log has all."""

    def run(url: str, log: CommitLog, count: int, **options: Any) -> None:
        with from_kafka(url, log, **options) as mirror:
            until(lambda: mirror.error or (log.count() >= count and mirror.lag == 0))
            if mirror.error is not None:
                raise mirror.error
        assert log.count() == count

    return run


def values(log: CommitLog) -> list[bytes]:
    with log.tailer() as tailer:
        return [record.value for record in tailer]


def test_records_arrive_once_and_in_order(
    kafka: KafkaServer, tmp_path: Path, receive: Callable[..., None]
) -> None:
    url = kafka.create("in")
    produce(kafka, "in", [b"%d" % n for n in range(500)], key=b"k")
    produce(kafka, "in", [None, b""], headers=[("a", b"1"), ("a", b"2"), ("none", None)])
    with commitlog.open(tmp_path / "log") as log:
        receive(url, log, 502, group="readers")
        produce(kafka, "in", [b"more"])
        receive(url, log, 503, group="readers")
        assert values(log) == [*(b"%d" % n for n in range(500)), b"", b"", b"more"]
        with log.tailer() as tailer:
            records = list(tailer)
        assert (records[0].key, records[500].key) == (b"k", None)
        assert int(records[0].headers["kafka-timestamp-ms"]) > 1_700_000_000_000
        known = {"a": b"2", "none": b"", "kafka-partition": b"0", "kafka-offset": b"500"}
        assert known.items() <= records[500].headers.items()
        assert "kafka-null" in records[500].headers
        assert "kafka-null" not in records[501].headers
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("in", 0)], 30)
    consumer.close()
    assert found.offset == 503


def test_restored_log_gets_its_records_again(
    kafka: KafkaServer, tmp_path: Path, receive: Callable[..., None]
) -> None:
    url = kafka.create("in-restored", 2)
    path = tmp_path / "log"
    commitlog.open(path).close()
    shutil.copytree(path, tmp_path / "empty")
    produce(kafka, "in-restored", [b"%d" % n for n in range(100)])
    with commitlog.open(path) as log:
        receive(url, log, 100)
    shutil.copytree(path, tmp_path / "backup")
    produce(kafka, "in-restored", [b"%d" % n for n in range(100, 200)])
    with commitlog.open(path) as log:
        receive(url, log, 200)
    for name in ("backup", "empty"):
        with commitlog.open(tmp_path / name) as log:
            receive(url, log, 200)
            assert sorted(map(int, values(log))) == list(range(200))


def test_topic_that_was_created_again_is_another(
    kafka: KafkaServer, tmp_path: Path, receive: Callable[..., None]
) -> None:
    url = kafka.create("in-again")
    with commitlog.open(tmp_path / "log") as log:
        produce(kafka, "in-again", [b"old"] * 3)
        receive(url, log, 3)
        kafka.create_again("in-again")
        produce(kafka, "in-again", [b"new"] * 5)
        receive(url, log, 8)
        assert values(log) == [b"old"] * 3 + [b"new"] * 5


def test_records_that_the_broker_deleted_are_an_error(
    kafka: KafkaServer, tmp_path: Path, receive: Callable[..., None]
) -> None:
    url = kafka.create("in-deleted")
    with commitlog.open(tmp_path / "log") as log:
        produce(kafka, "in-deleted", [b"a"] * 3)
        receive(url, log, 3)
        produce(kafka, "in-deleted", [b"b"] * 6)
        deleted = kafka.admin.delete_records([TopicPartition("in-deleted", 0, 7)])
        assert [done.result(30).low_watermark for done in deleted.values()] == [7]
        with pytest.raises(MirrorError, match="the broker has deleted records"):
            receive(url, log, 5)
        receive(url, log, 5, settings={"auto.offset.reset": "earliest"})


def test_new_partitions_are_read(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    from confluent_kafka.admin import NewPartitions

    monkeypatch.setattr("commitlog.mirror.receiving._LOOK_S", 0.1)
    url = kafka.create("in-grown")
    with commitlog.open(tmp_path / "log") as log, from_kafka(url, log):
        kafka.admin.create_partitions([NewPartitions("in-grown", 2)])["in-grown"].result(30)
        until(lambda: len(kafka.admin.list_topics("in-grown").topics["in-grown"].partitions) == 2)
        produce(kafka, "in-grown", [b"there"], partition=1)
        until(lambda: log.count() == 1)


def test_second_mirror_into_a_log_is_refused(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("in-twice")
    with (
        commitlog.open(tmp_path / "log") as log,
        commitlog.open(tmp_path / "log") as other,
        from_kafka(url, log),
        pytest.raises(InUseError),
    ):
        from_kafka(url, other)


def test_record_that_does_not_fit_is_an_error(
    kafka: KafkaServer, tmp_path: Path, receive: Callable[..., None]
) -> None:
    url = kafka.create("in-large")
    produce(kafka, "in-large", [b"small", b"x" * 100_000])
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        with pytest.raises(MirrorError, match="offset 1 of partition 0 does not fit the log"):
            receive(url, log, 2)
        assert values(log) == [b"small"]
