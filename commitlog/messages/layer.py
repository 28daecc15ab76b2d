"""Layers: what a writer applies to the bytes of a codec, and how a reader removes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeAlias, TypeVar

from commitlog._kernel.readers import Record
from commitlog.errors import KeyUnavailableError, SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression, sealer
from commitlog.messages.codec import Decode
from commitlog.messages.history import behind_history, end_of
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.schema import Schema
from commitlog.messages.sealed_dictionary import has_sealed, opened_dictionary
from commitlog.messages.unsealer import Unsealer

T = TypeVar("T")
LARGEST_SHARE = 8  # a record is at most this part of a segment
Opener: TypeAlias = Callable[[bytes], bytes]
"""Returns the bytes that the codec made; raises ValueError."""


class RecordDecoder(Generic[T]):
    """Decode messages that are bound to their record, because they are sealed.

    Parameters
    ----------
    log : CommitLog
        The log of the messages.
    keys : KeyRing
        Opens sealed messages.
    schema : Schema
        Theirs; a history is in front of what is sealed.
    decode : callable
        Decodes what was sealed.
    """

    def __init__(self, log: CommitLog, keys: KeyRing, schema: Schema, decode: Decode[T]) -> None:
        self._path = log.path
        self._unsealer = Unsealer(log, schema.number, keys)
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
        try:
            return self._decode(self._unsealer.opened(value, position, key))
        except KeyUnavailableError as error:  # of the message, or of its dictionary
            error.path, error.position = self._path, position
            raise

    def of_record(self, record: Record) -> T:
        """As `of_value`."""
        return self.of_value(record.value, record.position, record.key)


def _opener_of(log: CommitLog, schema: Schema, keys: KeyRing) -> Opener | None:
    """Return what removes the layers below a seal from a message of a schema; None if there are
    none.
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
    form = below[0]
    limit = log.segment_size // LARGEST_SHARE
    if not has_sealed(form):
        return compression.Decompressor(compression.dictionary_of(form), limit).decompressed

    @cache  # a missing key is an error of the first message that needs it
    def decompressor() -> Opener:
        _, dictionary = opened_dictionary(form, keys, log)
        return compression.Decompressor(dictionary, limit).decompressed

    def opened(value: bytes) -> bytes:
        return decompressor()(value)

    return opened


def layered(
    log: CommitLog, schema: Schema, decode: Decode[T], keys: KeyRing
) -> Decode[T] | RecordDecoder[T]:
    """Return a decoder of the records of a schema, made from a decoder of the codec's bytes. A
    history is in front of what the layers made.

    Raises
    ------
    SchemaError
        This release does not know the layers.
    MissingExtraError
        A package of a layer is not installed.
    """
    opened = _opener_of(log, schema, keys)
    inner = decode if opened is None else _behind(opened, decode)
    if sealer.is_sealed(schema):
        return RecordDecoder(log, keys, schema, inner)
    return behind_history(schema, inner)


def _behind(opened: Opener, decode: Decode[T]) -> Decode[T]:
    return lambda value: decode(opened(value))
