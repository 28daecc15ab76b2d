"""Primary: the other end of a follower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from commitlog.errors import ReplicationError
from commitlog.recovery.lineage import Rank
from commitlog.remote.channel import SILENCE_S, Channel
from commitlog.remote.endpoint import Endpoint
from commitlog.remote.wire import RefusedError, check_token, distrusted, number_of
from commitlog.replication import wire
from commitlog.replication.chunk_stream import ChunkStream
from commitlog.replication.replica import Standing


@dataclass(frozen=True)
class Access:
    """How to connect to other machines."""

    token: str | None = None
    tls_roots: str | None = None
    plain_text: bool = False

    def __post_init__(self) -> None:
        check_token(self.token)

    def primary(self, url: str) -> Primary:
        """Return the server of a log; refuse to connect to another machine without TLS."""
        return Primary(Endpoint(url, self.token, self.tls_roots, plain_text=self.plain_text))


class Primary:
    """The server that a follower copies from: connections to it, and its answers about its log."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = endpoint.url
        self._endpoint = endpoint

    def end(self) -> None:
        """End all connections, also for threads that wait, and each later one."""
        self._endpoint.end()

    def connect(self, timeout_s: float = SILENCE_S) -> Channel:
        return self._endpoint.connect(timeout_s)

    def describe(self, client: Channel, timeout_s: float) -> dict[str, Any]:
        """Ask for identity, lineage and end of the log."""
        return self._endpoint.ask(client, "describe", {}, timeout_s)

    def acknowledge(self, client: Channel, name: str, rank: Rank, position: int) -> Rank:
        """Say up to which position a copy is durable; return the rank of the primary."""
        content = {"name": name, "rank": rank._asdict(), "position": position}
        answer = self._endpoint.ask(client, "acknowledge", content, SILENCE_S)
        return wire.rank_of(answer, "rank", self.url)

    def fence(
        self, client: Channel, rank: Rank, timeout_s: float, *, changes: bool
    ) -> tuple[Rank, Standing]:
        """Ask a copy to promise an epoch; return what it has promised, and its standing."""
        content = {"rank": rank._asdict(), "changes": changes}
        answer = self._endpoint.ask(client, "fence", content, timeout_s)
        promised = wire.rank_of(answer, "promised", self.url)
        reached = wire.rank_of(answer, "reached", self.url)
        return promised, Standing(reached, number_of(answer, "position", self.url))

    def stream(self, name: str, rank: Rank, position: int, unsealed: list[int]) -> ChunkStream:
        """Begin the stream of chunks of an epoch, over a connection of its own."""
        content = {
            "name": name,
            "rank": rank._asdict(),
            "position": position,
            "unsealed": unsealed[: wire.SEALS_LIMIT],
        }
        channel = self.connect()
        self._endpoint.begin(channel, "follow", content)
        return ChunkStream(channel, self.url)

    def refused(self, error: Exception) -> ReplicationError | None:
        """Return the error that ends the follower; None if another try may succeed."""
        if not isinstance(error, RefusedError):
            return None
        return ReplicationError(f"{self.url} refuses to be followed: {error}")

    def distrusted(self, error: Exception) -> ReplicationError | None:
        """Return the error for a certificate that is refused; None for another failure."""
        return distrusted(error, self.url)
