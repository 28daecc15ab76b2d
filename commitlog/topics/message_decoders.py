"""MessageDecoders: what decodes the messages of topics, by their type numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from commitlog import CommitLog, Record
from commitlog.errors import SchemaError
from commitlog.topics.catalog import NO_SCHEMA
from commitlog.topics.codec import Codec, Decode, plain_decoder, typed_decoder
from commitlog.topics.floor_watch import FloorWatch
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.layer import RecordDecoder, layered
from commitlog.topics.record_keys import key_opener, stored_keys
from commitlog.topics.schema import Schema, is_message_type
from commitlog.topics.seal_layer import has_positions
from commitlog.topics.topics_state import catalog_of

NO_POSITION = (
    "it is not sealed for its position, so it may have been moved, or written without a key; to "
    "read what was appended before seal_positions=True, open the topic without it"
)


class TopicReading(NamedTuple):
    """What reads the messages of a topic: its codec, its key ring, and whether it refuses those
    that are not sealed for their positions.
    """

    codec: Codec[Any]
    keys: KeyRing
    needs_positions: bool


class MessageDecoders(dict[int, Decode[Any] | None]):
    """The decoder of each type number; None for records that the tailer skips, and for those whose
    decoder is in `of_records`.
    """

    def __init__(self, log: CommitLog, topics: dict[str, TopicReading]) -> None:
        super().__init__()
        self._log = log
        self._catalog = catalog_of(log)
        self._topics = topics
        self._watch = FloorWatch(log)
        self.schemas: dict[int, Schema] = {}
        self.of_records: dict[int, RecordDecoder[Any]] = {}
        self._key_openers: dict[int, Callable[[bytes], bytes] | None] = {}

    def __missing__(self, number: int) -> Decode[Any] | None:
        decode: Decode[Any] | RecordDecoder[Any] | None = None
        if is_message_type(number):
            try:
                schema = self._catalog.find(number)
                if schema is None:  # it may be appended later
                    return _refusing(NO_SCHEMA)
                self.schemas[number] = schema
                topic = self._topics.get(schema.topic)
                if topic is not None and topic.needs_positions and not has_positions(schema):
                    decode = _refusing(NO_POSITION)
                elif topic is not None:
                    decode = layered(
                        self._log, schema, typed_decoder(topic.codec, schema), topic.keys
                    )
            except SchemaError as error:
                if error.topic is None or error.topic in self._topics:
                    decode = _refusing(error.message, error.field)
        if isinstance(decode, RecordDecoder):
            self.of_records[number] = decode
            decode = None
        self[number] = decode
        return decode

    def note(self, record: Record) -> None:
        """Take a schema that the tailer passes."""
        if self._watch.note(record.key, record.value):
            self._renew()

    def refresh(self) -> None:
        """Take the schemas of sealed messages that the tailer may skip."""
        has_keys = any(topic.keys.key_ids for topic in self._topics.values())
        if has_keys and self._watch.refresh():
            self._renew()

    def _renew(self) -> None:
        self.clear()
        self.of_records.clear()

    def plain(self, schema: Schema) -> Decode[Any] | RecordDecoder[Any]:
        """Return what decodes messages of a schema to dicts and lists."""
        keys = self._topics[schema.topic].keys
        return layered(self._log, schema, plain_decoder(schema), keys)

    def key_of(self, record: Record) -> bytes | None:
        """Return the key that the message of a record was appended with.

        Raises
        ------
        KeyUnavailableError
            It is sealed, and the key ring has no key for it.
        ValueError
            It is not authentic.
        """
        schema = self.schemas.get(record.type)
        if schema is None or record.key is None:
            return record.key
        if record.type not in self._key_openers:
            keys = self._topics[schema.topic].keys
            self._key_openers[record.type] = key_opener(self._log, schema, keys)
        opened = self._key_openers[record.type]
        return record.key if opened is None else opened(record.key)

    def stored_keys(self, key: bytes) -> list[bytes]:
        """Return the keys that records may have for a key: itself, and those of sealed topics."""
        found = {key: None}
        for name, topic in self._topics.items():
            schemas = list(self._catalog.schemas_of(name).values())
            found |= stored_keys(self._log, schemas, topic.keys, key)
        return list(found)

    def has_history(self, number: int) -> bool:
        """Return whether messages with a type number have a history, once one was decoded."""
        schema = self.schemas.get(number)
        return schema is not None and schema.has_history


class NotDecodedError(ValueError):
    """Raised instead of decoding."""

    field: str | None = None


def _refusing(why: str, field: str | None = None) -> Decode[Any]:
    def refuse(_: bytes) -> NoReturn:
        error = NotDecodedError(why)
        error.field = field
        raise error

    return refuse
