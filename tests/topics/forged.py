"""What a program without a key can append to a topic that others have sealed."""

from __future__ import annotations

from commitlog import CommitLog
from commitlog.topics.schema import SCHEMA_TYPE, Schema, is_message_type
from tests.topics.orders import records


def forge(log: CommitLog, topic: str, value: bytes) -> int:
    """Append a message of a topic without sealing it, behind a schema; return its position."""
    known = (each for each in records(log) if (each.key or b"").startswith(b"schema:"))
    schemas = (Schema.of_value(each.value) for each in known)
    of_topic = next(each for each in schemas if each.topic == topic)
    plain = Schema(topic, of_topic.codec, of_topic.form)
    log.append(plain.value, key=plain.key, type=SCHEMA_TYPE)
    return log.append(value, type=plain.number)


def repeat(log: CommitLog) -> int:
    """Append the first message of the log once more; return its position."""
    first = next(each for each in records(log) if is_message_type(each.type))
    return log.append(first.value, key=first.key, type=first.type)
