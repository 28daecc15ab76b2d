"""The offset of a stream in some logs, and where the stream continues in a log that has changed.
No function here reads a log.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from typing import Any, NamedTuple

# The JSON that Spark keeps in the checkpoint: that of Kafka's source, and the uuid of each log, as
# in {"orders": {"0": 4096, "uuid": "8d77..."}}. Older releases write no uuid, and ignore it.
Offset = dict[str, dict[str, Any]]


class LogPosition(NamedTuple):
    """A position in a log, and the log's uuid; None in an offset of an older release."""

    position: int
    uuid: str | None


class Extent(NamedTuple):
    """What a log has: its uuid, its first position, the end for readers, and its tail, up to which
    records may become readable.
    """

    uuid: str
    first: int
    end: int
    tail: int


class Loss(NamedTuple):
    """Why records are lost to a stream, and what to do, for an error or a warning."""

    why: str
    remedy: str


_AFRESH = "start with a new checkpoint, or continue"


def places_of(offset: Mapping[str, Mapping[str, Any]] | None) -> dict[str, LogPosition]:
    """Read an offset."""
    return {
        name: LogPosition(int(parts["0"]), parts.get("uuid"))
        for name, parts in (offset or {}).items()
    }


def offset_of(places: Mapping[str, LogPosition]) -> Offset:
    """Write an offset. Equal places give equal JSON, by which Spark compares offsets."""
    return {
        name: {"0": place.position} | ({} if place.uuid is None else {"uuid": place.uuid})
        for name, place in sorted(places.items())
    }


def text_of(uuid: bytes) -> str:
    """Return a uuid as `log.json` has it."""
    return str(uuids.UUID(bytes=uuid))


def resumed(place: LogPosition | None, log: Extent) -> tuple[int, Loss | None]:
    """Return where a stream that was at a place continues in a log, and what it lost.

    A log that is new to the stream is read from its first record, and so is a log that replaced the
    one of the offset.
    """
    if place is None:
        return log.first, None
    if place.uuid not in (None, log.uuid):
        return log.first, _replaced(place, log)
    if place.position > log.tail:
        return log.end, Loss(
            f"the checkpoint has position {place.position}, and the log ends at {log.tail}: the "
            "log was replaced or lost its end",
            f"{_AFRESH} at the log's end",
        )
    if place.position < log.first:
        return log.first, Loss(
            "retention deleted records of this log before this query read them, positions "
            f"{place.position} to {log.first}",
            "keep more segments, or continue with the remaining records",
        )
    return place.position, None


def ended(place: LogPosition, log: Extent) -> tuple[int, Loss | None]:
    """Return where a planned batch that was to end at a place ends in a log, and what it lost."""
    if place.uuid not in (None, log.uuid):
        return log.first, _replaced(place, log)
    if place.position > log.tail:
        return resumed(place, log)
    return place.position, None


def advanced(place: LogPosition | None, end: LogPosition, tail: int) -> LogPosition:
    """Return the next offset in a log that ends at a place for readers. A query that has begun to
    wait for durable records may have read beyond that, up to the tail.
    """
    if place is None or place.uuid not in (None, end.uuid) or place.position > tail:
        return end
    return LogPosition(max(end.position, place.position), end.uuid)


def _replaced(place: LogPosition, log: Extent) -> Loss:
    return Loss(
        f"the checkpoint has position {place.position} of the log with uuid {place.uuid}, and the "
        f"log here has uuid {log.uuid}: it was deleted and created again, or this is another one",
        f"restore the log, {_AFRESH} at the first record of this log",
    )
