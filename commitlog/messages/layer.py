"""Layers: what is applied to the bytes of a codec, and how a reader takes it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from commitlog.errors import SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages import compression
from commitlog.messages.codec import Decode, RecordDecoder
from commitlog.messages.history import behind_history
from commitlog.messages.schema import Schema

T = TypeVar("T")
LARGEST_SHARE = 8  # a record is at most this part of a segment
Opener: TypeAlias = Callable[[bytes], bytes]
"""Returns the bytes that the codec made; raises ValueError."""


def opener_of(log: CommitLog, schema: Schema) -> Opener | None:
    """Return what takes the layers off a message of a schema; None if it has none.

    Raises
    ------
    SchemaError
        This release does not know the layers.
    MissingExtraError
        A package of a layer is not installed.
    """
    names = [layer["name"] for layer in schema.layers]
    if not names:
        return None
    if names != [compression.NAME]:
        raise SchemaError(
            f"topic {schema.topic!r}: this release does not know the layers {', '.join(names)} of "
            "its messages: use a newer release",
            topic=schema.topic,
        )
    dictionary = compression.dictionary_of(schema.layers[0])
    return compression.Decompressor(dictionary, log.segment_size // LARGEST_SHARE).decompressed


def layered(
    log: CommitLog, schema: Schema, decode: Decode[T] | RecordDecoder[T]
) -> Decode[T] | RecordDecoder[T]:
    """Return what decodes the records of a schema, from what decodes the bytes of its codec. A
    history is in front of what the layers made.

    Raises
    ------
    SchemaError, MissingExtraError
        As for `opener_of`.
    """
    opened = opener_of(log, schema)
    if opened is None:
        return behind_history(schema, decode)
    if isinstance(decode, RecordDecoder):
        return behind_history(schema, _OpeningDecoder(opened, decode))
    inner: Decode[T] = decode

    def decode_opened(value: bytes) -> T:
        return inner(opened(value))

    return behind_history(schema, decode_opened)


class _OpeningDecoder(RecordDecoder[T]):
    def __init__(self, opened: Opener, inner: RecordDecoder[T]) -> None:
        self._opened = opened
        self._inner = inner

    def of_value(self, value: bytes, position: int) -> Any:
        return self._inner.of_value(self._opened(value), position)
