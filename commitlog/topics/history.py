"""History: where a message came from. Its bytes precede those that the codec made."""

from __future__ import annotations

import struct
import uuid as uuids
from dataclasses import dataclass
from typing import TypeVar

from commitlog.topics.codec import Decode
from commitlog.topics.schema import Schema

T = TypeVar("T")
FORMAT = 1
# Format, number of hops, hops left out, outputs of the same input that follow, time of the write.
HEAD = struct.Struct("<BBHIq")
# Source, position, time of the write there, time of the read.
HOP = struct.Struct("<16sqqq")
# If there are more hops, the oldest are left out: a message that goes in a circle stays small.
MOST_HOPS = 32
MOST_EARLIER = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class Hop:
    """One log that a message, or what it was made of, came through.

    Attributes
    ----------
    source : uuid.UUID
        The identity of the log: `CommitLog.identity.uuid`.
    position : int
        The position of the message in that log.
    written_ns, read_ns : int
        When it was written there, and when the program that wrote the next message read it, in
        nanoseconds since 1970. The first hop's `written_ns` is the timestamp of its record.
    """

    source: uuids.UUID
    position: int
    written_ns: int
    read_ns: int


@dataclass(frozen=True, slots=True)
class History:
    """Where a message came from.

    Attributes
    ----------
    hops : tuple of Hop
        The logs on its way, from the first one on. The last hop is the message that was handled
        when this one was written.
    written_ns : int
        When this message was written, in nanoseconds since 1970.
    earlier : int
        How many hops before the first one of `hops` were left out: a history has at most 32.
    remaining : int
        How many messages follow that were appended together with this one, for the same input.
    """

    hops: tuple[Hop, ...]
    written_ns: int
    earlier: int = 0
    remaining: int = 0

    @classmethod
    def of_value(cls, value: bytes) -> History:
        """Read the history at the beginning of a value.

        Raises
        ------
        ValueError
            It is damaged, or a newer release wrote it.
        """
        end = end_of(value)
        _, _, earlier, remaining, written_ns = HEAD.unpack_from(value)
        hops = [
            Hop(uuids.UUID(bytes=source), *rest)
            for source, *rest in HOP.iter_unpack(value[HEAD.size : end])
        ]
        return cls(tuple(hops), written_ns, earlier, remaining)


def end_of(value: bytes) -> int:
    """Return where the history ends and the codec's bytes begin.

    Raises
    ------
    ValueError
        The history is damaged, or a newer release wrote it.
    """
    if value and value[0] > FORMAT:
        raise ValueError(
            f"its history has version {value[0]}, and this release reads versions up to {FORMAT}: "
            "use a newer release"
        )
    if not is_whole(value):
        raise ValueError("its history is damaged")
    return HEAD.size + HOP.size * value[1]


def is_whole(value: bytes) -> bool:
    """Return whether a value begins with a history that this release reads."""
    size = len(value)
    return (
        size >= HEAD.size
        and value[0] == FORMAT
        and 0 < value[1] <= MOST_HOPS
        and size >= HEAD.size + HOP.size * value[1]
    )


def behind_history(schema: Schema, decode: Decode[T]) -> Decode[T]:
    """Return a decoder of messages with a history, made from a decoder of those without."""
    if not schema.has_history:
        return decode
    return lambda value: decode(value[end_of(value) :])
