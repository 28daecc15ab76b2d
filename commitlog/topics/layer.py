"""Layers: what a writer applies to the bytes of a codec, and how a reader removes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Generic, TypeAlias, TypeVar

from commitlog import CommitLog, Record
from commitlog.errors import KeyUnavailableError, SchemaError
from commitlog.topics import compression, seal_layer
from commitlog.topics.codec import Decode
from commitlog.topics.floor_watch import refusing
from commitlog.topics.history import behind_history, end_of
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.schema import Schema
from commitlog.topics.sealed_dictionary import has_sealed, opened_dictionary
from commitlog.topics.unsealer import Unsealer

T = TypeVar("T")
LARGEST_SHARE = 8  # a record is at most this part of a segment
Opener: TypeAlias = Callable[[bytes], bytes]
"""Returns the bytes that the codec made; raises ValueError."""
RecordOpener: TypeAlias = Callable[[bytes, int, bytes | None], bytes]
"""Likewise, of the value, the position and the key of a record."""


class RecordDecoder(Generic[T]):
    """Decode messages that are bound to their record, because they are sealed, or are not sealed
    although their topic is.

    Parameters
    ----------
    log : CommitLog
        The log of the messages.
    schema : Schema
        Theirs; a history is in front of what the layers made.
    openers : sequence of callable
        Each takes a layer off: it takes a value, the position and the key of the record, and
        returns the value below. They raise ValueError and KeyUnavailableError.
    decode : callable
        Decodes what is below the layers.
    """

    def __init__(
        self, log: CommitLog, schema: Schema, openers: Sequence[RecordOpener], decode: Decode[T]
    ) -> None:
        self._path = log.path
        self._has_history = schema.has_history
        self._openers = openers
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
            for opened in self._openers:
                value = opened(value, position, key)
            return self._decode(value)
        except KeyUnavailableError as error:  # of the message, or of its dictionary
            error.path, error.position = self._path, position
            raise

    def of_record(self, record: Record) -> T:
        """As `of_value`."""
        return self.of_value(record.value, record.position, record.key)


def is_bound(schema: Schema) -> bool:
    """Return whether only their own log can decode the messages of a schema, because they are
    sealed or deltas.
    """
    return seal_layer.is_sealed(schema) or any(map(compression.has_deltas, schema.layers))


def unsealing(log: CommitLog, schema: Schema, decode: Decode[T], keys: KeyRing) -> RecordDecoder[T]:
    """Return what takes the seal off the messages of a schema, if they are sealed, and decodes what
    is below. It refuses those that are not authentic.
    """
    return RecordDecoder(log, schema, _seals(log, schema, keys), decode)


def _seals(log: CommitLog, schema: Schema, keys: KeyRing) -> list[RecordOpener]:
    refused = refusing(log, schema, keys)
    found: list[RecordOpener] = [] if refused is None else [refused]
    if seal_layer.is_sealed(schema):
        has_positions = seal_layer.has_positions(schema)
        found.append(Unsealer(log, schema.number, keys, has_positions=has_positions).opened)
    return found


def _opener_of(log: CommitLog, schema: Schema, keys: KeyRing) -> Opener | None:
    """Return what removes the layers below a seal from a message of a schema; None if there are
    none.
    """
    below = schema.layers[: len(schema.layers) - seal_layer.is_sealed(schema)]
    names = [layer["name"] for layer in below]
    if not names:
        return None
    if names not in ([compression.NAME], [compression.DELTA_NAME]):
        listed = ", ".join(layer["name"] for layer in schema.layers)
        raise SchemaError(
            f"topic {schema.topic!r}: this release does not know the layers {listed} of "
            "its messages: use a newer release",
            topic=schema.topic,
        )
    opened = _decompressing(log, below[0], keys)
    if compression.has_deltas(below[0]):
        return _behind(compression.whole_of, opened)
    return opened


def _decompressing(log: CommitLog, form: compression.Form, keys: KeyRing) -> Opener:
    limit = log.segment_size // LARGEST_SHARE
    if not has_sealed(form):
        return compression.Decompressor(compression.dictionary_of(form), limit).decompressed

    @cache  # a missing key is an error of the first message that needs it
    def decompressor() -> Opener:
        _, dictionary = opened_dictionary(form, keys, log)
        return compression.Decompressor(dictionary, limit).decompressed

    def decompressed(value: bytes) -> bytes:
        return decompressor()(value)

    return decompressed


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
    seals = _seals(log, schema, keys)
    return RecordDecoder(log, schema, seals, inner) if seals else behind_history(schema, inner)


def _behind(opened: Opener, decode: Decode[T]) -> Decode[T]:
    return lambda value: decode(opened(value))
