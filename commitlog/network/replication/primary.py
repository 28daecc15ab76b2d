"""Primary: the other end of a follower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from commitlog.errors import ReplicationError
from commitlog.extension import Lineage, Member, Rank
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.endpoint import Endpoint
from commitlog.network.remote.wire import check_token, distrusted, number_of
from commitlog.network.replication import wire
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.digests import Digest
from commitlog.network.replication.following import Log
from commitlog.network.replication.promise import Asked, Standing
from commitlog.network.replication.wire import Chunk
from commitlog.types import Identity


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

    def describe(self, client: Channel, timeout_s: float) -> Log:
        """Ask for identity, lineage and ends of the log."""
        said = {"durable": 0, **self._endpoint.ask(client, "describe", {}, timeout_s)}
        identity = Identity.parse(str(said.get("identity")), self.url)
        names = "first", "end", "durable"
        first, end, durable = (number_of(said, name, self.url) for name in names)
        place = str(said.get("copy"))
        return Log(identity, self._lineage_of(said), first, end, min(durable, end), place)

    def digests(
        self, client: Channel, ends: list[tuple[int, int]], timeout_s: float, side: str = ""
    ) -> list[Digest | None]:
        """Ask for the digests of segments up to offsets, of the log or of a side log; None for
        those that it lacks.
        """
        content = {"ends": ends} | ({"side": side} if side else {})
        answer = self._endpoint.ask(client, "digests", content, timeout_s)
        return wire.digests_of(answer, len(ends), self.url)

    def sides(self, client: Channel, timeout_s: float) -> wire.Sides:
        """Ask for the side logs."""
        return wire.sides_of(self._endpoint.ask(client, "sides", {}, timeout_s), self.url)

    def side_chunks(
        self, client: Channel, side: str, position: int, unsealed: list[int]
    ) -> Iterator[Chunk]:
        """Ask for what a side log has flushed from a position on."""
        content = {"side": side, "position": position, "unsealed": unsealed[: wire.SEALS_LIMIT]}
        client.wait_at_most(SILENCE_S)
        self._endpoint.request(client, "chunks", content)
        stream = ChunkStream(client, self.url)
        while (chunk := stream.next()) is not None:
            yield chunk

    def acknowledge(self, client: Channel, name: str, rank: Rank, position: int) -> Rank:
        """Say up to which position a copy is durable; return the rank of the primary."""
        content = {"name": name, "rank": rank._asdict(), "position": position}
        answer = self._endpoint.ask(client, "acknowledge", content, SILENCE_S)
        return wire.rank_of(answer, "rank", self.url)

    def fence(self, client: Channel, asked: Asked, timeout_s: float) -> tuple[Rank, Standing]:
        """Ask a copy to promise an epoch; return what it has promised, and its standing."""
        content = wire.content_of_asked(asked)
        answer = self._endpoint.ask(client, "fence", content, timeout_s)
        promised = wire.rank_of(answer, "promised", self.url)
        reached = wire.rank_of(answer, "reached", self.url)
        return promised, Standing(reached, number_of(answer, "position", self.url))

    def join(self, client: Channel, new: Member) -> Lineage:
        """Ask a log to count a copy; return its lineage, which the copy has to have before it
        acknowledges.
        """
        content = {"member": new.id, "name": new.name}
        return self._lineage_of(self._endpoint.ask(client, "join", content, SILENCE_S))

    def _lineage_of(self, said: dict[str, Any]) -> Lineage:
        """Return the lineage in an answer."""
        try:
            theirs = Lineage.parse(said)
        except ValueError as error:
            raise ReplicationError(f"{self.url} sent an unusable lineage: {error}") from None
        if theirs.number > Lineage.NUMBER_LIMIT:
            raise ReplicationError(
                f"{self.url} has epoch {theirs.number}, and no epoch has a number above "
                f"{Lineage.NUMBER_LIMIT}"
            )
        return theirs

    def stream(
        self,
        name: str,
        rank: Rank,
        position: int,
        unsealed: list[int],
        *,
        members: Iterable[Member] = (),
        member: str = "",
    ) -> ChunkStream:
        """Begin the stream of chunks of an epoch, over a connection of its own, to a copy that
        has this id and knows these logs.
        """
        content = {
            "name": name,
            "rank": rank._asdict(),
            "member": member,
            "members": [each.id for each in members],
            "position": position,
            "unsealed": unsealed[: wire.SEALS_LIMIT],
        }
        channel = self.connect()
        self._endpoint.begin(channel, "follow", content)
        return ChunkStream(channel, self.url)

    def distrusted(self, error: Exception) -> ReplicationError | None:
        """Return the error for a certificate that is refused; None for another failure."""
        return distrusted(error, self.url)
