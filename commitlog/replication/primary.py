"""Primary: the other end of a follower."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from commitlog.base.regular_file import read_small_file
from commitlog.errors import ReplicationError
from commitlog.recovery.lineage import Rank
from commitlog.replication import wire
from commitlog.replication.chunk_stream import ChunkStream
from commitlog.replication.replica import Standing

_ANSWER_S = 10.0
_PEM_LIMIT = 1 << 20  # bytes


@dataclass(frozen=True)
class Access:
    """How to connect to other machines."""

    token: str | None = None
    tls_roots: str | None = None
    plain_text: bool = False

    def primary(self, url: str) -> Primary:
        """Return the server of a log; refuse to connect to another machine without TLS."""
        address = wire.address_of(url)
        address.check_plain(self.plain_text)
        roots = self.tls_roots
        pem = None if roots is None else read_small_file(roots, _PEM_LIMIT, follow=True)
        return Primary(url, address, self.token, pem)


class Primary:
    """The server that a follower copies from: connections to it, and its answers about its log."""

    def __init__(
        self, url: str, address: wire.Address, token: str | None, roots: bytes | None
    ) -> None:
        self.url = url
        self._address = address
        self._roots = roots
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._news = threading.Condition()
        self._ended = False

    def end(self) -> None:
        """End the calls that wait for an answer, and each later one; from any thread."""
        with self._news:
            self._ended = True
            self._news.notify_all()

    def connect(self) -> Any:
        options: dict[str, Any] = {"generic_options": wire.OPTIONS}
        if self._roots is not None:
            options["tls_root_certs"] = self._roots
        return wire.flight().FlightClient(self._address.location, **options)

    def describe(self, client: Any, timeout_s: float) -> dict[str, Any]:
        """Ask for identity, lineage and end of the log."""
        return self._ask(client, "describe", {}, timeout_s)

    def _ask(
        self, client: Any, action: str, content: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        flight = wire.flight()
        options = flight.FlightCallOptions(timeout=max(timeout_s, 0.1), headers=self._headers)
        body = wire.text({"log": self._address.log, **content})
        results = self._called(lambda: list(client.do_action(flight.Action(action, body), options)))
        if len(results) != 1:
            raise ReplicationError(f"{self.url} did not answer {action!r}")
        return wire.content_of(results[0].body.to_pybytes(), self.url)

    def _called(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Return the answer of a call that `end` does not have to wait for.

        Flight cannot cancel a call, and in a partition it takes its whole time, so a thread makes
        it.
        """
        done: list[Future[list[Any]]] = []

        def run() -> None:
            future: Future[list[Any]] = Future()
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                future.set_exception(error)
            with self._news:
                done.append(future)
                self._news.notify_all()

        threading.Thread(target=run, name="commitlog call", daemon=True).start()
        with self._news:
            self._news.wait_for(lambda: done or self._ended)
        if not done:
            raise wire.flight().FlightCancelledError("the follower is closed")
        return done[0].result()

    def acknowledge(self, client: Any, name: str, rank: Rank, position: int) -> Rank:
        """Say up to which position a copy is durable; return the rank of the primary."""
        content = {"name": name, "rank": rank._asdict(), "position": position}
        answer = self._ask(client, "acknowledge", content, _ANSWER_S)
        return wire.rank_of(answer, "rank", self.url)

    def fence(
        self, client: Any, rank: Rank, timeout_s: float, *, changes: bool
    ) -> tuple[Rank, Standing]:
        """Ask a copy to promise an epoch; return what it has promised, and its standing."""
        content = {"rank": rank._asdict(), "changes": changes}
        answer = self._ask(client, "fence", content, timeout_s)
        promised = wire.rank_of(answer, "promised", self.url)
        reached = wire.rank_of(answer, "reached", self.url)
        return promised, Standing(reached, wire.number_of(answer, "position", self.url))

    def stream(
        self, client: Any, name: str, rank: Rank, position: int, unsealed: list[int]
    ) -> ChunkStream:
        """Begin the stream of chunks of an epoch."""
        flight = wire.flight()
        content = {
            "log": self._address.log,
            "name": name,
            "rank": rank._asdict(),
            "position": position,
            "unsealed": unsealed,
        }
        descriptor = flight.FlightDescriptor.for_command(wire.text(content))
        options = flight.FlightCallOptions(headers=self._headers)
        exchange = client.do_exchange(descriptor, options)
        return ChunkStream(exchange, self.url, lambda: self.describe(client, _ANSWER_S / 2))

    def refused(self, error: Exception) -> ReplicationError | None:
        """Return the error that ends the follower; None if another try may succeed."""
        flight = wire.flight()
        if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError
                      | flight.FlightCancelledError | flight.FlightInternalError):  # fmt: skip
            return None
        if "Stream removed" in str(error):  # gRPC's words for a connection with damaged bytes
            return None
        return ReplicationError(f"{self.url} refuses to be followed: {self.reason(error)}")

    @staticmethod
    def reason(error: Exception) -> str:
        """Return the text of a failed call, without the internals of gRPC."""
        return str(error).partition(". Detail:")[0].partition(". gRPC client debug")[0]

    @staticmethod
    def failures() -> tuple[type[Exception], ...]:
        """Return what a connection that fails raises."""
        return wire.arrow_exception(), OSError
