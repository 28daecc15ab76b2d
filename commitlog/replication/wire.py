"""What a server of logs and its followers send each other, over Arrow Flight.

A follower asks with the action `describe` for the identity, the lineage and the end of a log, then
opens one endless exchange. The server sends chunks. A chunk has a header page of a segment, or
frames, or neither: then it only reports how far the log is durable. The follower reports how far
its copy is durable. With the action `acknowledge` it reports a later epoch to a primary. A
promotion asks other copies with `fence` to promise its epoch.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import Any

from commitlog._kernel.segments import crc32c
from commitlog.base.extras import imported
from commitlog.errors import ReplicationError
from commitlog.recovery.lineage import Rank, parse_rank
from commitlog.remote.wire import (
    HEARTBEAT_S,
    OPTIONS,
    PROTOCOL,
    Address,
    address_of,
    content_of,
    distrusted,
    flight,
    listen_of,
    number_of,
    text,
)

__all__ = [
    "CHUNK_BYTES",
    "END",
    "HEARTBEAT_S",
    "NAME_LIMIT",
    "OPTIONS",
    "PROTOCOL",
    "Address",
    "Chunk",
    "acknowledgement",
    "acknowledgement_of",
    "address_of",
    "arrow_exception",
    "chunk_of",
    "content_of",
    "distrusted",
    "flight",
    "listen_of",
    "message_of",
    "name_of",
    "number_of",
    "rank_of",
    "schema",
    "text",
]

CHUNK_BYTES = 1 << 20  # a larger frame is a chunk of its own
SHORT_BYTES = 16 << 10  # content of a message without a record batch
NAME_LIMIT = 512  # characters of a follower's name

# Messages of fixed layout, little-endian, each with its CRC behind.
_HEAD = struct.Struct("<B3qI")  # kind, number, offset, flushed, CRC of the content
_NOTE, _HEADER, _FRAMES, _END = range(4)
_ACKNOWLEDGEMENT = struct.Struct("<q32s2q")  # number, id and restart of the epoch, position
_CRC = struct.Struct("<I")
_OFFSETS = struct.Struct("<2q")  # where a large_binary of one row begins and ends


def arrow_exception() -> type[Exception]:
    """Return the base class of the errors of Arrow and of Flight."""
    error: type[Exception] = imported("pyarrow", "replication", "arrow").ArrowException
    return error


def rank_of(content: dict[str, Any], name: str, peer: str) -> Rank:
    """Return a rank from a message."""
    try:
        return parse_rank(content.get(name))
    except ValueError:
        raise ReplicationError(f"{peer} sent no usable {name!r}") from None


def name_of(content: dict[str, Any], peer: str) -> str:
    """Return the name of a follower from a message."""
    name = content.get("name")
    if type(name) is not str or not 0 < len(name) <= NAME_LIMIT:
        raise ReplicationError(f"{peer} sent no usable 'name'")
    return name


@dataclass(frozen=True)
class Chunk:
    """One message of the stream.

    `number` and `offset` say where the frames begin; a `header` is that segment's first page.
    `flushed` is the end of what the server's log has made durable. `crc` covers header or frames,
    of which at least one is empty.
    """

    number: int
    offset: int
    flushed: int
    crc: int
    header: bytes = b""
    frames: bytes | memoryview = b""


@functools.cache
def schema() -> Any:
    """Return the Arrow schema of a chunk."""
    pyarrow = imported("pyarrow", "replication", "arrow")
    return pyarrow.schema([pyarrow.field("content", pyarrow.large_binary(), nullable=False)])


def message_of(chunk: Chunk) -> tuple[Any, bytes]:
    """Return a chunk as a record batch and its head.

    Short content follows the head, and there is no batch: Flight sends that in fewer steps. A batch
    has one row, which is the chunk's own bytes; nothing is copied.
    """
    content = chunk.header or chunk.frames
    kind = _HEADER if chunk.header else _FRAMES if chunk.frames else _NOTE
    head = _sealed(_HEAD.pack(kind, chunk.number, chunk.offset, chunk.flushed, chunk.crc))
    if len(content) <= SHORT_BYTES:
        return None, head + content
    pyarrow = imported("pyarrow", "replication", "arrow")
    offsets = pyarrow.py_buffer(_OFFSETS.pack(0, len(content)))
    column = pyarrow.Array.from_buffers(
        pyarrow.large_binary(), 1, [None, offsets, pyarrow.py_buffer(content)], 0
    )
    return pyarrow.RecordBatch.from_arrays([column], schema=schema()), head


def chunk_of(batch: Any, head: Any, peer: str) -> Chunk | None:
    """Check a message from a peer and return its chunk; None for the last message.

    The frames stay in the message's memory.
    """
    message = memoryview(head or b"").cast("B")
    size = _HEAD.size + _CRC.size
    kind, number, offset, flushed, crc = _opened(message[:size], _HEAD, peer)
    content = message[size:]
    if batch is not None:
        if content:
            raise ReplicationError(f"{peer} sent a message that is not a chunk of a log")
        content = _content_of(batch, peer)
    if min(number, offset, flushed) < 0 or (kind in (_HEADER, _FRAMES)) != bool(content):
        raise ReplicationError(f"{peer} sent a message that is not a chunk of a log")
    if kind == _END:
        return None
    if kind == _HEADER:
        return Chunk(number, offset, flushed, crc, header=bytes(content))
    return Chunk(number, offset, flushed, crc, frames=content)


def _content_of(batch: Any, peer: str) -> memoryview:
    try:
        batch.validate(full=True)  # Arrow reads beyond a buffer if the offsets say so
        sound = batch.schema == schema() and batch.num_rows == 1 and not batch.column(0).null_count
    except arrow_exception():
        sound = False
    if not sound:
        raise ReplicationError(f"{peer} sent a message that is not a chunk of a log")
    column = batch.column(0)  # not its value, which Arrow would copy
    _, offsets, content = column.buffers()
    start, stop = _OFFSETS.unpack_from(offsets, 8 * column.offset)
    return memoryview(content or b"").cast("B")[start:stop]


def acknowledgement(rank: Rank, position: int) -> bytes:
    """Return the message that a copy of an epoch is durable up to a position."""
    return _sealed(_ACKNOWLEDGEMENT.pack(rank.number, rank.id.encode(), rank.restart, position))


def acknowledgement_of(message: Any, peer: str) -> tuple[Rank, int]:
    """Check such a message."""
    number, name, restart, position = _opened(message, _ACKNOWLEDGEMENT, peer)
    try:
        text_of_name = name.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        text_of_name = None
    if text_of_name is None or min(number, restart, position) < 0:
        raise ReplicationError(f"{peer} sent no usable acknowledgement")
    return Rank(number, text_of_name, restart), position


def _sealed(body: bytes) -> bytes:
    return body + _CRC.pack(crc32c(body))


def _opened(message: Any, layout: struct.Struct, peer: str) -> tuple[Any, ...]:
    """Check the CRC of a message of fixed layout: a flipped bit must not acknowledge a record."""
    content = b"" if message is None else bytes(message)
    body = content[: layout.size]
    if len(content) != layout.size + _CRC.size or _CRC.pack(crc32c(body)) != content[-_CRC.size :]:
        raise ReplicationError(f"{peer} sent a message that is not of this protocol")
    return layout.unpack(body)


END = _sealed(_HEAD.pack(_END, 0, 0, 0, 0))  # the server closes its side
