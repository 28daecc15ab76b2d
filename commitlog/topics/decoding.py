"""MessageDecoder: decode the messages of a log without their classes."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias

from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError, UndecodableError
from commitlog.topics.codec import Decode, made_by_schema, plain_decoder
from commitlog.topics.completing import completed
from commitlog.topics.floor_watch import FloorWatch
from commitlog.topics.history import History
from commitlog.topics.key_ring import KeyRing, key_ring_of
from commitlog.topics.layer import RecordDecoder, layered
from commitlog.topics.record_keys import key_opener
from commitlog.topics.schema import SCHEMA_TYPE, Schema, is_message_type
from commitlog.topics.topics_state import catalog_of

# Lone surrogates, which no encoding of text takes, control characters beyond ASCII, and those that
# turn the direction of text.
_OBEYED = re.compile("[\ud800-\udfff\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_Known: TypeAlias = tuple[Schema, Decode[Any] | RecordDecoder[Any]]


class Decoded(NamedTuple):
    """A message as dicts, lists and plain values.

    Attributes
    ----------
    topic : str
        The name of its topic.
    message : object
        Its content.
    key : bytes or None
        The key that it was appended with.
    history : History or None
        Where it came from, if the decoder reads histories.
    """

    topic: str
    message: Any
    key: bytes | None
    history: History | None = None


class MessageDecoder:
    """Decode messages by the schemas in their log.

    Parameters
    ----------
    log : CommitLog
        The open log.
    topics : collection of str, optional
        Decode these topics only; all by default.
    history : bool
        Read the histories of the messages, too.
    keys : KeyRing, optional
        Opens sealed messages; by default that of the environment.
    """

    def __init__(
        self,
        log: CommitLog,
        topics: Collection[str] | None = None,
        *,
        history: bool = False,
        keys: KeyRing | None = None,
    ) -> None:
        self._log = log
        self._topics = topics
        self._reads_history = history
        self._keys = key_ring_of(keys)
        self._catalog = catalog_of(log)
        self._known: dict[int, _Known | None] = {}
        self._watch = FloorWatch(log)
        self._openers: dict[int, Callable[[bytes], bytes] | None] = {}  # of record keys

    def decode(self, number: int, value: bytes, position: int, key: bytes | None) -> Decoded | None:
        """Decode the value of a record.

        Parameters
        ----------
        number, value, position, key
            The record's type, value, position and key.

        Returns
        -------
        Decoded or None
            None if the record is no message of these topics.

        Raises
        ------
        UndecodableError
            The message has no schema in the log, or does not match it.
        KeyUnavailableError
            The message is sealed, and the key ring has no key for it.
        MissingExtraError
            A package of the codec is not installed.
        """
        if not is_message_type(number):
            if number == SCHEMA_TYPE and self._watch.note(key, value):
                self._known = {}
            return None
        topic = None
        try:
            if number not in self._known:
                self._known[number] = self._decoder_of(number)
            known = self._known[number]
            if known is None:
                return None
            schema, decode = known
            topic = schema.topic
            if isinstance(decode, RecordDecoder):
                message = decode.of_value(value, position, key)
            else:
                message = decode(value)
            key = self.opened_key(number, key, position)
            if self._reads_history and schema.has_history:
                return Decoded(topic, message, key, History.of_value(value))
            return Decoded(topic, message, key)
        except (ValueError, RecursionError) as error:
            raise UndecodableError(
                f"a message cannot be decoded: {getattr(error, 'message', error)}",
                path=self._log.path,
                position=position,
                topic=topic,
            ) from None

    def refresh(self) -> None:
        """Note the schemas of records that the caller may skip: a view has none."""
        if self._watch.refresh():
            self._known = {}

    def has_sealed_keys(self, number: int) -> bool:
        """Return whether messages with a type number have sealed record keys."""
        if number not in self._openers:
            schema = self._catalog.checked(number) if is_message_type(number) else None
            opened = None
            if isinstance(schema, Schema):
                opened = key_opener(self._log, schema, self._keys)
            self._openers[number] = opened
        return self._openers[number] is not None

    def opened_key(self, number: int, key: bytes | None, position: int) -> bytes | None:
        """Return the key that a message was appended with; raise as `decode` does."""
        if key is None or not self.has_sealed_keys(number):
            return key
        opened = self._openers[number]
        assert opened is not None
        try:
            return opened(key)
        except KeyUnavailableError as error:
            error.position = position
            raise
        except ValueError as error:
            raise UndecodableError(
                f"a record key cannot be opened: {error}", path=self._log.path, position=position
            ) from None

    def _decoder_of(self, number: int) -> _Known | None:
        schema = self._catalog.schema_of(number)
        if self._topics is not None and schema.topic not in self._topics:
            return None
        # The standard library decodes JSON, so that a shell needs no extra for it.
        decode: Decode[Any] = (
            made_by_schema(schema, lambda: completed(schema, json.loads))
            if schema.codec == "json"
            else plain_decoder(schema)
        )
        return schema, layered(self._log, schema, decode, self._keys)


def as_json(message: Any) -> str:
    """Return a decoded message as JSON: bytes as base64, times in ISO 8601, and numbers that are
    not finite as "NaN", "Infinity" and "-Infinity". Characters that a terminal obeys are escaped.

    Raises
    ------
    ValueError
        It is nested too deeply.
    """
    try:
        text = _dumped(message)
    except (ValueError, TypeError):  # a number that is not finite, or a key that is not text
        try:
            text = _dumped(_finite(message))
        except RecursionError:
            raise ValueError("the message is nested too deeply") from None
    except RecursionError:
        raise ValueError("the message is nested too deeply") from None
    return text if text.isascii() else _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _dumped(message: Any) -> str:
    text = json.dumps(message, default=_plain, ensure_ascii=False, allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    """Return a value with text in place of numbers that are not finite, and of other keys."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_key(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _key(name: Any) -> Any:
    if isinstance(name, str | int | None) or (isinstance(name, float) and math.isfinite(name)):
        return name
    return str(_finite(name)) if isinstance(name, float) else str(_plain(name))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value)
