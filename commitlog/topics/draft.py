"""Draft: messages on their way through the layers of their topic, and the variant that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from commitlog import CommitLog
from commitlog.errors import InvalidOptionError
from commitlog.extension import view_of
from commitlog.topics.compiled.messages import DeclaredSegment
from commitlog.topics.data_key import DataKey, PlaceSeal
from commitlog.topics.message_sizes import FRAME_MOST, frames_length
from commitlog.topics.schema import Schema

Key: TypeAlias = bytes | bytearray
Headers: TypeAlias = Mapping[str, bytes]


class Variant:
    """A schema that messages are appended under, and the segment that has it.

    Parameters
    ----------
    schema : Schema
        With all its layers.
    data_key : DataKey, optional
        Seals the messages.
    seal : PlaceSeal, optional
        Seals the messages for their positions; their values have `ROOM` at the end until then.

    Attributes
    ----------
    schema, data_key, seal
        As given.
    type : int
        The type number of the messages.
    heads : list of tuple of bytes
        Key and value of the records that each segment needs before the messages.
    heads_length : int
        At least how many bytes their frames take.
    declared : DeclaredSegment
        The segment in which this handle has appended them.
    is_declared : bool
        Whether the schema is in the folder `topics`.
    """

    __slots__ = (
        "data_key",
        "declared",
        "heads",
        "heads_length",
        "is_declared",
        "schema",
        "seal",
        "type",
    )

    def __init__(
        self, schema: Schema, data_key: DataKey | None = None, seal: PlaceSeal | None = None
    ) -> None:
        self.schema = schema
        self.type = schema.number
        self.data_key = data_key
        self.seal = seal
        self.declared = DeclaredSegment()
        self.is_declared = False
        self.heads = [(schema.key, schema.value)]
        if data_key is not None:
            self.heads.append(data_key.record)
        keys, values = zip(*self.heads, strict=True)
        self.heads_length = frames_length(list(values), list(keys))

    def room(self, log: CommitLog) -> int:
        """Return how many bytes of frames fit the segment that has the schema."""
        return self.declared.end - FRAME_MOST - log.tail_position


@dataclass(slots=True)
class Draft:
    """Messages of one append, which the layers change.

    Attributes
    ----------
    values : list of bytes
        The values of their records.
    keys : list of bytes-like or None
        The keys of their records.
    schema : Schema
        That of the layers so far.
    lengths : tuple of int
        How many bytes the values have together, and how many the longest one has, before the first
        layer.
    variant : Variant or None
        What they are appended under, once the last layer has been applied.
    headers : list of mapping or None
        Those of each record; None: no record has any.
    header_lengths : list of int
        How many bytes they take in front of each record.
    """

    values: list[bytes]
    keys: list[Any]
    schema: Schema
    lengths: tuple[int, int] = (0, 0)
    variant: Variant | None = None
    headers: list[Headers | None] | None = None
    header_lengths: list[int] = field(default_factory=list)

    def add_headers(self, log: CommitLog, headers: list[Headers | None]) -> None:
        """Give each record its headers, after checking them."""
        if len(headers) != len(self.values):
            raise InvalidOptionError(
                f"headers must have one item for each message: {len(headers)} for "
                f"{len(self.values)} messages",
                path=log.path,
            )
        self.header_lengths = [view_of(log).headers_length(each) for each in headers]
        self.headers = headers

    def length(self, first: int, last: int) -> int:
        """Return at least how many bytes the records from `first` to `last` take."""
        headers = sum(self.header_lengths[first:last])
        return frames_length(self.values[first:last], self.keys[first:last]) + headers
