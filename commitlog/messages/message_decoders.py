"""MessageDecoders: what decodes the messages of topics, by their type numbers."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from commitlog.errors import SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.catalog import NO_SCHEMA, SchemaCatalog
from commitlog.messages.codec import Codec, Decode, plain_decoder
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.layer import RecordDecoder, layered
from commitlog.messages.schema import Schema, is_message_type


class Reading(NamedTuple):
    """What reads the messages of a topic: its codec, and its key ring."""

    codec: Codec[Any]
    keys: KeyRing


class MessageDecoders(dict[int, Decode[Any] | None]):
    """The decoder of each type number; None for records that the tailer skips, and for those whose
    decoder is in `of_records`.
    """

    def __init__(self, log: CommitLog, topics: dict[str, Reading]) -> None:
        super().__init__()
        self._log = log
        self._catalog = SchemaCatalog(log)
        self._topics = topics
        self.schemas: dict[int, Schema] = {}
        self.of_records: dict[int, RecordDecoder[Any]] = {}

    def __missing__(self, number: int) -> Decode[Any] | None:
        decode: Decode[Any] | RecordDecoder[Any] | None = None
        if is_message_type(number):
            try:
                schema = self._catalog.find(number)
                if schema is None:  # it may be appended later
                    return _refusing(NO_SCHEMA)
                self.schemas[number] = schema
                topic = self._topics.get(schema.topic)
                if topic is not None:
                    decode = layered(self._log, schema, topic.codec.decoder(schema), topic.keys)
            except SchemaError as error:
                if error.topic is None or error.topic in self._topics:
                    decode = _refusing(error.message, error.field)
        if isinstance(decode, RecordDecoder):
            self.of_records[number] = decode
            decode = None
        self[number] = decode
        return decode

    def plain(self, schema: Schema) -> Decode[Any] | RecordDecoder[Any]:
        """Return what decodes messages of a schema to dicts and lists."""
        keys = self._topics[schema.topic].keys
        return layered(self._log, schema, plain_decoder(schema), keys)

    def has_history(self, number: int) -> bool:
        """Return whether messages with a type number have a history, once one was decoded."""
        schema = self.schemas.get(number)
        return schema is not None and schema.has_history


class RefusedError(ValueError):
    """Raised instead of decoding."""

    field: str | None = None


def _refusing(why: str, field: str | None = None) -> Decode[Any]:
    def refuse(_: bytes) -> NoReturn:
        error = RefusedError(why)
        error.field = field
        raise error

    return refuse
