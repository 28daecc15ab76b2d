"""Listener: a port, and a thread for each connection to it."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import socket
import ssl
from collections.abc import Callable

from commitlog.base.host import host
from commitlog.base.polling import attempts
from commitlog.network.remote import sockets
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.wire import Address

_logger = logging.getLogger("commitlog.replication")
_CONNECTIONS_LIMIT = 1024  # at once; each has a thread and a descriptor
_STRANGERS_LIMIT = 256  # of these, which are not trusted yet
_BACKLOG = 128
_PORT_S = 1.0  # to wait for a port that is in use
_PAUSE_S = 0.1  # when the process has no descriptor or thread left


class _Client:
    """A connection, and the thread that serves it."""

    def __init__(self, connection: socket.socket, run: Callable[[_Client], None]) -> None:
        self.socket = connection
        self.channel: Channel | None = None  # until TLS has begun
        self.thread = host.thread("commitlog serve", functools.partial(run, self))

    @property
    def is_trusted(self) -> bool:
        return self.channel is not None and self.channel.trusted


class Listener:
    """Accept connections until it is closed.

    If there is no room for a connection, the oldest one that is not trusted yet is ended, so
    clients without a token keep no others out.

    Parameters
    ----------
    where : Address
        Host and port; port 0 takes a free one.
    context : ssl.SSLContext, optional
        The certificate, for TLS.
    serve : callable
        Serves a connection, in a thread of its own; an `OSError` ends it.

    Attributes
    ----------
    port : int
        The port.
    """

    def __init__(
        self, where: Address, context: ssl.SSLContext | None, serve: Callable[[Channel], None]
    ) -> None:
        self._socket = _listening(where)
        sockets.close_in_child(self._socket)
        self.port = int(self._socket.getsockname()[1])
        self._context = context
        self._serve = serve
        self._ends = host.event()
        self._lock = host.lock()
        self._clients: dict[_Client, None] = {}  # the oldest one first
        self._thread = host.thread("commitlog serve", self._accept)
        try:
            self._thread.start()
        except BaseException:
            self._socket.close()
            raise

    def _accept(self) -> None:
        failed = False
        while not self._ends.is_set():
            try:
                self._begin(self._socket.accept()[0])
                failed = False
            except (OSError, RuntimeError, MemoryError) as error:
                if not (failed or self._ends.is_set()):
                    _logger.warning("a connection is not accepted: %r; trying again", error)
                failed = True
                self._ends.wait(_PAUSE_S)

    def _begin(self, connection: socket.socket) -> None:
        client = _Client(connection, self._run)
        try:
            if not self._has_room():
                raise ConnectionRefusedError(f"there are {_CONNECTIONS_LIMIT} connections")
            sockets.close_in_child(connection)
            with self._lock:
                self._clients[client] = None
            client.thread.start()
        except BaseException:
            sockets.close(connection)
            with self._lock:
                self._clients.pop(client, None)
            raise

    def _has_room(self) -> bool:
        clients = self._all()
        strangers = [client for client in clients if not client.is_trusted]
        if len(clients) < _CONNECTIONS_LIMIT and len(strangers) < _STRANGERS_LIMIT:
            return True
        if not strangers:
            return False
        sockets.end(strangers[0].socket)
        strangers[0].thread.join(_PAUSE_S)
        return not strangers[0].thread.is_alive()

    def _run(self, client: _Client) -> None:
        try:
            with contextlib.suppress(OSError), Channel(client.socket, self._context) as channel:
                client.channel = channel
                self._serve(channel)
        finally:
            sockets.close(client.socket)
            with self._lock:
                self._clients.pop(client, None)

    def close(self, limit_s: float) -> bool:
        """Release the port, and wait for trusted connections to end; after `limit_s` end them.
        Return whether all of these ended by themselves.
        """
        self._ends.set()
        sockets.end(self._socket)  # ends `accept`
        self._thread.join()
        sockets.close(self._socket)
        deadline_s = host.monotonic() + limit_s
        clients = self._all()
        for client in clients:
            if not client.is_trusted:
                sockets.end(client.socket)
        for client in clients:
            client.thread.join(max(0.0, deadline_s - host.monotonic()))
        left = [client for client in clients if client.thread.is_alive()]
        for client in left:
            sockets.end(client.socket)
        deadline_s = host.monotonic() + limit_s
        for client in left:
            client.thread.join(max(0.0, deadline_s - host.monotonic()))
        return not left

    def _all(self) -> list[_Client]:
        with self._lock:
            return list(self._clients)


def _listening(where: Address) -> socket.socket:
    """Listen; if the port is in use, wait for it, because its last server may just have died."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    used: OSError | None = None
    for _ in attempts(_PORT_S, f"port {where.port} of {where.host}"):
        try:
            found = host.listen((where.host, where.port), family, _BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            used = error
        else:
            found.settimeout(None)
            return found
    assert used is not None
    raise used
