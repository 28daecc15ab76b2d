"""Layers: what is applied to the bytes of a codec, and how a reader takes it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from commitlog._kernel.readers import Record
from commitlog.errors import SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression, sealer
from commitlog.messages.codec import Decode
from commitlog.messages.history import behind_history, end_of
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.schema import Schema
from commitlog.messages.unsealer import Unsealer

T = TypeVar("T")
LARGEST_SHARE = 8  # a record is at most this part of a segment
Opener: TypeAlias = Callable[[bytes], bytes]
"""Returns the bytes that the codec made; raises ValueError."""


class RecordDecoder(Generic[T]):
    """Decode messages that are bound to their record, because they are sealed.

    Parameters
    ----------
    unsealer : Unsealer
        Opens them.
    schema : Schema
        Theirs; a history is in front of what is sealed.
    decode : callable
        Decodes what was sealed.
    """

    def __init__(self, unsealer: Unsealer, schema: Schema, decode: Decode[T]) -> None:
        self._unsealer = unsealer
        self._has_history = schema.has_history
        self._decode = decode

    def of_value(self, value: bytes, position: int, key: bytes | None) -> T:
        """Return the message of the record with that value, position and key.

        Raises
        ------
        KeyUnavailableError
            The key ring has no key for it.
        ValueError
            The message is not authentic, or does not match its schema.
        """
        if self._has_history:
            value = value[end_of(value) :]
        return self._decode(self._unsealer.opened(value, position, key))

    def of_record(self, record: Record) -> T:
        """As `of_value`."""
        return self.of_value(record.value, record.position, record.key)


def opener_of(log: CommitLog, schema: Schema) -> Opener | None:
    """Return what takes the layers below a seal off a message of a schema; None if it has none.

    Raises
    ------
    SchemaError
        This release does not know the layers.
    MissingExtraError
        A package of a layer is not installed.
    """
    below = schema.layers[: len(schema.layers) - sealer.is_sealed(schema)]
    names = [layer["name"] for layer in below]
    if not names:
        return None
    if names != [compression.NAME]:
        listed = ", ".join(layer["name"] for layer in schema.layers)
        raise SchemaError(
            f"topic {schema.topic!r}: this release does not know the layers {listed} of "
            "its messages: use a newer release",
            topic=schema.topic,
        )
    dictionary = compression.dictionary_of(below[0])
    return compression.Decompressor(dictionary, log.segment_size // LARGEST_SHARE).decompressed


def layered(
    log: CommitLog, schema: Schema, decode: Decode[T], keys: KeyRing
) -> Decode[T] | RecordDecoder[T]:
    """Return what decodes the records of a schema, from what decodes the bytes of its codec. A
    history is in front of what the layers made.

    Raises
    ------
    SchemaError, MissingExtraError
        As for `opener_of`.
    """
    opened = opener_of(log, schema)
    inner = decode if opened is None else _behind(opened, decode)
    if sealer.is_sealed(schema):
        return RecordDecoder(Unsealer(log, schema.number, keys), schema, inner)
    return behind_history(schema, inner)


def _behind(opened: Opener, decode: Decode[T]) -> Decode[T]:
    return lambda value: decode(opened(value))
