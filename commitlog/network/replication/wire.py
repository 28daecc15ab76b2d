"""What a server of logs and its followers send each other.

A follower asks with the action `describe` for the identity, the lineage and the end of a log, then
begins an endless stream with `follow`. The server sends chunks. A chunk has a header page of a
segment, or frames, or neither: then it only reports how far the log is durable. The follower
reports how far its copy is durable. With the action `acknowledge` it reports a later epoch to a
primary. A promotion asks other copies with `fence` to promise its epoch. Before the stream begins,
a follower asks with `digests` whether the log has the same frames as its copy. While it runs, the
follower asks now and then with `sides` for the ends of the side logs, and with `chunks` for what
they have flushed since.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, get_args

from commitlog.base.side_logs import is_side_log
from commitlog.errors import ReplicationError
from commitlog.extension import Member, Rank
from commitlog.network.remote.wire import answer_of, number_of
from commitlog.network.replication.promise import Asked, State
from commitlog.types import Identity

CHUNK_BYTES = 1 << 20  # a larger frame is a chunk of its own
BODY_LIMIT = 1 << 30  # the largest segment
HEAD_LIMIT = 1 << 16  # of a chunk, or of the error that ends a stream
ACKNOWLEDGEMENT_LIMIT = 1 << 7
NAME_LIMIT = 512  # characters of a follower's name
DIGESTS_LIMIT = 1024  # of one request
SEALS_LIMIT = 1024  # segments whose seal is sent later

# Heads of fixed layout, little-endian. JSON begins with a brace, which is none of these kinds.
_HEAD = struct.Struct("<B3q")  # kind, number, offset, flushed
_NOTE, _HEADER, _FRAMES = range(3)
_ACKNOWLEDGEMENT = struct.Struct("<q32s2q")  # number, id and restart of the epoch, position


def rank_of(content: dict[str, Any], name: str, peer: str) -> Rank:
    """Return a rank from a message."""
    try:
        return Rank.parse(content.get(name))
    except ValueError:
        raise ReplicationError(f"{peer} sent no usable {name!r}") from None


def numbers_of(content: dict[str, Any], name: str, peer: str) -> list[int]:
    """Return numbers of segments from a message."""
    found = content.get(name)
    if not isinstance(found, list) or any(
        type(each) is not int or not 0 <= each < 1 << 63 for each in found
    ):
        raise ReplicationError(f"{peer} sent no usable {name!r}")
    return found


def member_of(content: dict[str, Any], peer: str) -> Member:
    """Return the copy that a message is from."""
    try:
        return Member.parse({"id": content.get("member"), "name": name_of(content, peer)})
    except ValueError:
        raise ReplicationError(f"{peer} sent no usable 'member': upgrade commitlog there") from None


def name_of(content: dict[str, Any], peer: str) -> str:
    """Return the name of a follower from a message."""
    name = content.get("name")
    if type(name) is not str or not 0 < len(name) <= NAME_LIMIT:
        raise ReplicationError(f"{peer} sent no usable 'name'")
    return name


def content_of_asked(asked: Asked) -> dict[str, Any]:
    """Return what a promotion asks of a log, for a message."""
    before = {} if asked.before is None else {"before": asked.before._asdict()}
    rank = asked.rank._asdict()
    copies = {} if asked.copies is None else {"copies": asked.copies}
    return {"rank": rank, "changes": asked.changes, "state": asked.state, **before, **copies}


def asked_of(content: dict[str, Any], peer: str) -> Asked:
    """Return what a promotion asks of a log, from a message."""
    before = None if "before" not in content else rank_of(content, "before", peer)
    state = content.get("state", "asked")
    if state not in get_args(State):
        raise ReplicationError(f"{peer} sent no usable 'state'")
    changes = content.get("changes") is True
    copies = None if "copies" not in content else number_of(content, "copies", peer)
    return Asked(rank_of(content, "rank", peer), changes, before, copies, state)


def digests_asked(content: dict[str, Any], peer: str) -> list[tuple[int, int]]:
    """Return the segments of which a peer asks for digests, and up to which offsets."""
    ends = content.get("ends")
    if isinstance(ends, list) and len(ends) <= DIGESTS_LIMIT and all(map(_is_pair, ends)):
        return [(number, stop) for number, stop in ends]
    raise ReplicationError(f"{peer} sent no usable 'ends'")


def digests_of(content: dict[str, Any], count: int, peer: str) -> list[tuple[int, int] | None]:
    """Return so many digests from an answer."""
    found = content.get("digests")
    if (
        isinstance(found, list)
        and len(found) == count
        and all(each is None or _is_pair(each) for each in found)
    ):
        return [None if each is None else (each[0], each[1]) for each in found]
    raise ReplicationError(f"{peer} sent no usable 'digests'")


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(each) is int and 0 <= each < 1 << 64 for each in value)
    )


@dataclass(frozen=True)
class Side:
    """A side log: its first segment, and its durable end."""

    identity: Identity
    first: int
    end: int


@dataclass(frozen=True)
class Sides:
    """The side logs of a log by their folders, None while their ends change; the epoch of the log,
    and where it was durable after these ends. A side log that could not be read is None.
    """

    rank: Rank
    sides: dict[str, Side | None] | None
    flushed: int


def sides_of(content: dict[str, Any], peer: str) -> Sides:
    """Return the side logs from an answer."""
    given, found = content.get("sides"), None
    if given is not None:
        if not isinstance(given, dict) or not all(
            is_side_log(folder) and (each is None or isinstance(each, dict))
            for folder, each in given.items()
        ):
            raise ReplicationError(f"{peer} sent no usable 'sides'")
        found = {
            folder: None if each is None else _side_of(each, peer) for folder, each in given.items()
        }
    return Sides(rank_of(content, "rank", peer), found, number_of(content, "flushed", peer))


def _side_of(content: dict[str, Any], peer: str) -> Side:
    return Side(
        Identity.parse(str(content.get("identity")), peer),
        number_of(content, "first", peer),
        number_of(content, "end", peer),
    )


@dataclass(frozen=True)
class Chunk:
    """One message of the stream.

    `number` and `offset` say where the frames begin; a `header` is that segment's first page.
    `flushed` is the end of what the server's log has made durable. Of header and frames, at least
    one is empty; `crc` is that of the other one, if it is known.
    """

    number: int
    offset: int
    flushed: int
    crc: int | None = None
    header: bytes = b""
    frames: bytes | memoryview = b""

    def message(self) -> tuple[bytes, bytes | memoryview, int | None]:
        """Return the head and the body of its message, and the CRC of the body."""
        kind = _HEADER if self.header else _FRAMES if self.frames else _NOTE
        head = _HEAD.pack(kind, self.number, self.offset, self.flushed)
        return head, self.header or self.frames, self.crc


def chunk_of(head: bytes, body: memoryview, peer: str) -> Chunk | None:
    """Return the chunk of a message, or None for the last one, which may be an error: see
    `answer_of`. The frames stay in the message's memory.
    """
    if head[:1] == b"{":
        answer_of(head, peer)
        return None
    if len(head) == _HEAD.size:
        kind, number, offset, flushed = _HEAD.unpack(head)
        if min(number, offset, flushed) >= 0 and (kind in (_HEADER, _FRAMES)) == bool(body):
            if kind == _HEADER:
                return Chunk(number, offset, flushed, header=bytes(body))
            return Chunk(number, offset, flushed, frames=body)
    raise ReplicationError(f"{peer} sent a message that is not a chunk of a log")


def acknowledgement(rank: Rank, position: int) -> bytes:
    """Return the message that a copy of an epoch is durable up to a position."""
    return _ACKNOWLEDGEMENT.pack(rank.number, rank.id.encode(), rank.restart, position)


def acknowledgement_of(message: bytes, peer: str) -> tuple[Rank, int]:
    """Check such a message."""
    if len(message) == _ACKNOWLEDGEMENT.size:
        number, name, restart, position = _ACKNOWLEDGEMENT.unpack(message)
        if name.isascii() and min(number, restart, position) >= 0:
            return Rank(number, name.rstrip(b"\0").decode(), restart), position
    raise ReplicationError(f"{peer} sent no usable acknowledgement")
