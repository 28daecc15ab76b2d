"""Place: how far a broker has the records of a log, and where to go on. No I/O."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Self

from commitlog.errors import MirrorError

_WORD = "commitlog-place"


def digest_of(timestamp_ns: int, value: bytes) -> str:
    """Return a text that differs between records that can have the same position."""
    return f"{timestamp_ns:x}-{zlib.crc32(value):08x}"


@dataclass(frozen=True)
class Place:
    """What a mirror commits with its records, as the offset of a consumer group and its metadata.

    Attributes
    ----------
    log : str
        The uuid of the log.
    position : int
        The broker has all records below it.
    last : int
        The position of the last one of them.
    digest : str
        The `digest_of` that record.
    """

    log: str
    position: int
    last: int
    digest: str

    def metadata(self) -> str:
        """Return what stands beside the offset."""
        return f"{_WORD} {self.log} {self.last} {self.digest}"

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Self | None:
        """Return the place that a group has; None if it has none. Another program's offset is a
        `MirrorError`.
        """
        if offset < 0:
            return None
        match (metadata or "").split():
            case [word, log, last, digest] if word == _WORD and last.isdecimal():
                return cls(log, offset, int(last), digest)
        raise MirrorError(
            f"the offset {offset} of the mirror's consumer group is of another program: take "
            "another transactional_id or name"
        )


def resume_position(place: Place | None, tailer: int, log: str, end: int, found: str | None) -> int:
    """Return where a mirror goes on: at its named tailer, or at its place if that is later.

    The tailer moves after the place, so a kill between both leaves the tailer behind. A copy of the
    log has no tailer, and a restored one has an old tailer.

    Parameters
    ----------
    place : Place or None
        What the broker has.
    tailer : int
        Where the named tailer is.
    log : str
        The uuid of the log.
    end : int
        Where its durable records end.
    found : str or None
        The digest of its record at `place.last`; None if retention has deleted that record.
    """
    if place is None:
        return tailer
    if place.log != log:
        raise MirrorError(
            f"the place at the broker is that of log {place.log}, and this is log {log}: take "
            "another transactional_id or name"
        )
    advice = (
        "mirror the log that wrote them; or send this one to another topic, under another "
        "transactional_id or name"
    )
    if place.position > end:
        raise MirrorError(
            f"the broker has records up to position {place.position}, and this log ends at {end}, "
            f"so it was restored, or its last records were lost: {advice}",
            position=end,
        )
    if found not in {None, place.digest}:
        raise MirrorError(
            "the broker has another record of this log, so the log was restored or copied, and "
            f"written since: {advice}",
            position=place.last,
        )
    return max(place.position, tailer)
