"""TopicJobs: the messages of a topic as jobs."""

from __future__ import annotations

from typing import Any

from commitlog import Record
from commitlog.topics import Topic
from commitlog.topics.message_decoders import MessageDecoders
from commitlog.topics.schema import SCHEMA_TYPE


class TopicJobs:
    """Choose and decode the records of a topic."""

    def __init__(self, topic: Topic[Any]) -> None:
        name, reading = topic._named_reading()
        self._decoders = MessageDecoders(topic.log, {name: reading})

    def wants(self, record: Record) -> bool:
        """Return whether a record is a message of the topic, decodable or not."""
        decoders = self._decoders
        if record.type == SCHEMA_TYPE:
            decoders.note(record)
            return False
        return decoders[record.type] is not None or record.type in decoders.of_records

    def decode(self, record: Record) -> Any:
        """Return the message of a record; a ValueError says that it cannot be decoded."""
        decoders = self._decoders
        decode = decoders[record.type]
        if decode is not None:
            return decode(record.value)
        return decoders.of_records[record.type].of_record(record)
