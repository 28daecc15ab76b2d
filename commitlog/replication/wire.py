"""What a server of logs and its followers send each other, over Arrow Flight.

A follower asks with the action `describe` for the identity, the lineage and the end of a log, then
reads one endless stream of chunks. A chunk has a header page of a segment, or frames, or neither:
then it only reports how far the log is durable. With `acknowledge` the follower reports how far its
copy is durable. A promotion asks other copies with `fence` to promise its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    flight,
    listen_of,
    number_of,
    text,
)

__all__ = [
    "CHUNK_BYTES",
    "HEARTBEAT_S",
    "NAME_LIMIT",
    "OPTIONS",
    "PROTOCOL",
    "Address",
    "Chunk",
    "address_of",
    "batch_of",
    "chunk_of",
    "content_of",
    "flight",
    "listen_of",
    "number_of",
    "rank_of",
    "schema",
    "text",
]

CHUNK_BYTES = 1 << 20  # a larger frame is a chunk of its own
NAME_LIMIT = 512  # characters of a follower's name


def rank_of(content: dict[str, Any], name: str, peer: str) -> Rank:
    """Return a rank from a message."""
    try:
        return parse_rank(content.get(name))
    except ValueError:
        raise ReplicationError(f"{peer} sent no usable {name!r}") from None


@dataclass(frozen=True)
class Chunk:
    """One message of the stream.

    `number` and `offset` say where the frames begin; a `header` is that segment's first page.
    `flushed` is the end of what the server's log has made durable. `crc` covers header and frames.
    """

    number: int
    offset: int
    flushed: int
    crc: int
    header: bytes = b""
    frames: bytes = b""


def schema() -> Any:
    """Return the Arrow schema of a chunk."""
    pyarrow = imported("pyarrow", "replication", "arrow")
    numbers = [(name, pyarrow.int64()) for name in ("number", "offset", "flushed", "crc")]
    return pyarrow.schema(
        [*numbers, ("header", pyarrow.binary()), ("frames", pyarrow.large_binary())]
    )


def batch_of(chunk: Chunk, layout: Any) -> Any:
    """Return a chunk as a record batch of one row."""
    pyarrow = imported("pyarrow", "replication", "arrow")
    columns = [[getattr(chunk, name)] for name in layout.names]
    return pyarrow.record_batch(columns, schema=layout)


def chunk_of(batch: Any, layout: Any, peer: str) -> Chunk:
    """Check a record batch from a peer and return its chunk."""
    if batch is None or batch.schema != layout or batch.num_rows != 1:
        raise ReplicationError(f"{peer} sent what is not a chunk of a log")
    values = {name: batch.column(name)[0].as_py() for name in layout.names}
    if any(value is None for value in values.values()):
        raise ReplicationError(f"{peer} sent a chunk without a value")
    if any(values[name] < 0 for name in ("number", "offset", "flushed", "crc")):
        raise ReplicationError(f"{peer} sent a negative position")
    return Chunk(**values)
