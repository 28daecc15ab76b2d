"""Read a topic, and compare it with a log."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from commitlog import CommitLog

READ_S = 60.0


def records_of(address: str, topic: str) -> list[Any]:
    """Return all committed messages of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        count = len(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
        found, ended, until_s = [], set(), time.monotonic() + READ_S
        while len(ended) < count:
            assert time.monotonic() < until_s, "the topic could not be read to its end"
            for message in consumer.consume(1000, 1):
                if message.error() is None:
                    found.append(message)
                else:
                    ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def header(message: Any, name: str) -> bytes | None:
    return dict(message.headers()).get(name)


def rows_of(messages: list[Any]) -> list[tuple[int, bytes | None, bytes]]:
    """Return position, key and value of messages that a mirror sent, by position."""
    found = [
        (int(header(message, "commitlog-position") or -1), message.key(), message.value())
        for message in messages
    ]
    return sorted(found, key=lambda row: row[0])


def rows_in(log: CommitLog) -> list[tuple[int, bytes | None, bytes]]:
    """Return position, key and value of the records of a log."""
    with log.tailer() as tailer:
        return [(record.position, record.key, record.value) for record in tailer]


def are_ordered(messages: list[Any]) -> bool:
    """Return whether the positions ascend in each partition."""
    places = [
        (message.partition(), int(header(message, "commitlog-position") or -1))
        for message in messages
    ]
    return places == sorted(set(places))
