"""Primary: the other end of a follower."""

from __future__ import annotations

from typing import Any

from commitlog.errors import ReplicationError
from commitlog.replication import wire

_ANSWER_S = 10.0


class Primary:
    """The server that a follower copies from: connections to it, and what it says of its log."""

    def __init__(
        self, url: str, address: wire.Address, token: str | None, roots: bytes | None
    ) -> None:
        self.url = url
        self._address = address
        self._roots = roots
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]

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
        results = list(client.do_action(flight.Action(action, body), options))
        if len(results) != 1:
            raise ReplicationError(f"{self.url} did not answer {action!r}")
        return wire.content_of(results[0].body.to_pybytes(), self.url)

    def acknowledge(self, client: Any, name: str, epoch: int, position: int) -> int:
        """Say up to which position a copy is durable; return the epoch of the primary."""
        content = {"name": name, "epoch": epoch, "position": position}
        answer = self._ask(client, "acknowledge", content, _ANSWER_S)
        return wire.number_of(answer, "epoch", self.url)

    def stream(self, client: Any, position: int, unsealed: list[int]) -> Any:
        """Begin the stream of chunks."""
        flight = wire.flight()
        content = {"log": self._address.log, "position": position, "unsealed": unsealed}
        options = flight.FlightCallOptions(headers=self._headers)
        return client.do_get(flight.Ticket(wire.text(content)), options)

    def refused(self, error: Exception) -> ReplicationError | None:
        """Return the error that ends the follower; None if another try may succeed."""
        flight = wire.flight()
        if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError
                      | flight.FlightCancelledError | flight.FlightInternalError):  # fmt: skip
            return None
        what = str(error).partition(". Detail:")[0].partition(". gRPC client debug")[0]
        return ReplicationError(f"{self.url} refuses to be followed: {what}")
