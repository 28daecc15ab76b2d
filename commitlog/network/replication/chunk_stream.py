"""ChunkStream: the chunks of a log as they arrive."""

from __future__ import annotations

from typing import Self

from commitlog.extension import Rank
from commitlog.network.remote.channel import Channel
from commitlog.network.replication import wire


class ChunkStream:
    """Read the chunks of a stream and acknowledge them, in one thread.

    The server sends a chunk each `HEARTBEAT_S` at least; a silent stream ends by an `OSError`.
    """

    def __init__(self, channel: Channel, url: str) -> None:
        self._channel = channel
        self._url = url

    def next(self) -> wire.Chunk | None:
        """Return the next chunk; None if the server closes. The next call overwrites its frames."""
        return wire.chunk_of(*self._channel.receive(wire.HEAD_LIMIT, wire.BODY_LIMIT), self._url)

    def acknowledge(self, rank: Rank, position: int) -> None:
        """Tell the server how far the copy is durable."""
        self._channel.send(wire.acknowledgement(rank, position))

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._channel.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
