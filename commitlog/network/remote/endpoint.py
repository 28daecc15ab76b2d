"""Endpoint: the server of one log, as a client reaches it."""

from __future__ import annotations

import contextlib
import socket
import weakref
from concurrent.futures import Future
from typing import Any

from commitlog.base.host import host
from commitlog.network.remote import sockets, wire
from commitlog.network.remote.channel import SILENCE_S, Channel

_Found = tuple[socket.AddressFamily, socket.SocketKind, Any]
_LOOK_S = 0.05  # how long `end` may wait for a thread that resolves a name


class Endpoint:
    """Connect to the server of one log, and ask it. Any thread may use it.

    Parameters
    ----------
    url : str
        Names the server and the log.
    token : str, optional
        Sent with each request.
    tls_roots : str, optional
        Path of the certificates to trust, in PEM; by default those of the system.
    plain_text : bool
        Also connect to other machines without TLS.
    """

    def __init__(
        self, url: str, token: str | None, tls_roots: str | None, *, plain_text: bool = False
    ) -> None:
        self.url = url
        wire.check_token(token)
        address = self._address = wire.address_of(url)
        address.check_plain(plain_text)
        self._context = wire.client_context(tls_roots) if address.encrypted else None
        self._known = {"log": address.log} | ({} if token is None else {"token": token})
        self._lock = host.lock()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._ended = False

    def connect(self, timeout_s: float = SILENCE_S) -> Channel:
        """Return a new connection.

        Raises
        ------
        OSError
            The server was not reached, or `wire.distrusted` knows that its certificate is refused.
        """
        deadline_s = host.monotonic() + timeout_s
        failed: OSError | None = None
        found = self._resolved(deadline_s)
        for tried, (family, kind, where) in enumerate(found):
            connection = host.socket(family, kind)
            try:
                self._add(connection)
                # An address that does not answer leaves time for those after it.
                left_s = max(deadline_s - host.monotonic(), 1e-3) / (len(found) - tried)
                connection.settimeout(left_s)
                connection.connect(where)
                name = self._address.host if self._context else None
                return Channel(connection, self._context, name, limit_s=left_s)
            except OSError as error:
                sockets.close(connection)
                failed = error
            except BaseException:
                sockets.close(connection)
                raise
        raise failed or OSError(f"{self._address.host} has no address")

    def _resolved(self, deadline_s: float) -> list[_Found]:
        """Return the addresses of the host. A name server may take longer than the caller can wait,
        and no signal ends that call: a thread makes it.
        """
        with contextlib.suppress(socket.gaierror):
            return _addresses(self._address, socket.AI_NUMERICHOST)
        answer: Future[list[_Found]] = Future()

        def resolve() -> None:
            try:
                answer.set_result(_addresses(self._address))
            except (OSError, ValueError) as error:
                answer.set_exception(error)

        host.thread("commitlog resolve", resolve).start()
        while not self._ended and host.monotonic() < deadline_s:
            with contextlib.suppress(TimeoutError):
                return answer.result(_LOOK_S)
        raise TimeoutError(f"no name server has answered for {self._address.host}")

    def _add(self, connection: socket.socket) -> None:
        sockets.close_in_child(connection)
        with self._lock:
            if self._ended:
                raise ConnectionAbortedError("this side has ended the connection")
            self._sockets.add(connection)

    def request(self, channel: Channel, action: str, content: dict[str, Any]) -> None:
        """Send a request."""
        channel.send(wire.text({"action": action, **self._known, **content}))

    def begin(self, channel: Channel, action: str, content: dict[str, Any]) -> None:
        """Send the request of a stream, whose messages follow; close the channel if that fails."""
        try:
            channel.wait_at_most(SILENCE_S)
            self.request(channel, action, content)
        except BaseException:
            channel.close()
            raise

    def ask(
        self, channel: Channel, action: str, content: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Send a request, and return its answer.

        Raises
        ------
        RefusedError
            The server refuses the request.
        ReplicationError
            The server has another version of the protocol.
        OSError
            The connection failed; another try may succeed.
        """
        channel.wait_at_most(timeout_s)
        self.request(channel, action, content)
        return wire.answer_of(channel.receive(wire.TEXT_LIMIT)[0], self.url)

    def end(self) -> None:
        """End all connections, also for threads that wait, and refuse new ones."""
        with self._lock:
            self._ended = True
            for connection in list(self._sockets):
                sockets.end(connection)


def _addresses(address: wire.Address, flags: int = 0) -> list[_Found]:
    found = host.addresses(address.host, address.port, flags)
    return [(family, kind, where) for family, kind, _, _, where in found]
