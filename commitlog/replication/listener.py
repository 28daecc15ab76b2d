"""Listener: a port, and a thread for each connection to it."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable

from commitlog.remote.channel import Channel, close_in_child
from commitlog.remote.wire import Address

_logger = logging.getLogger("commitlog.replication")
_CONNECTIONS_LIMIT = 1024  # at once; each has a thread
_BACKLOG = 128
_PAUSE_S = 0.1  # when the process has no descriptor or thread left


class Listener:
    """Accept connections until it is closed.

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
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self._socket = socket.create_server(
            (where.host, where.port), family=family, backlog=_BACKLOG
        )
        close_in_child(self._socket)
        self.port = int(self._socket.getsockname()[1])
        self._context = context
        self._serve = serve
        self._closing = False
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._thread = threading.Thread(target=self._accept, name="commitlog serve", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if not self._closing:
                    _logger.warning("no connection is accepted: %s; trying again", error)
                    time.sleep(_PAUSE_S)
                continue
            with self._lock:
                has_room = len(self._connections) < _CONNECTIONS_LIMIT and not self._closing
            if not has_room or not self._begin(connection):
                connection.close()

    def _begin(self, connection: socket.socket) -> bool:
        thread = threading.Thread(
            target=self._run, args=(connection,), name="commitlog serve", daemon=True
        )
        with self._lock:
            self._connections[thread] = connection
        try:
            thread.start()
        except RuntimeError as error:
            _logger.warning("a connection is refused: %s", error)
            with self._lock:
                del self._connections[thread]
            return False
        return True

    def _run(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), Channel(connection, self._context) as channel:
                self._serve(channel)
        finally:
            connection.close()
            with self._lock:
                self._connections.pop(threading.current_thread(), None)

    def close(self, limit_s: float) -> bool:
        """Release the port, and wait for connections to end; after `limit_s` end them. Return
        whether all ended by themselves.
        """
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._thread.join()
        self._socket.close()
        deadline_s = time.monotonic() + limit_s
        while (left := self._threads()) and time.monotonic() < deadline_s:
            next(iter(left)).join(_PAUSE_S)
        for connection in left.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left:
            thread.join(limit_s)
        return not left

    def _threads(self) -> dict[threading.Thread, socket.socket]:
        with self._lock:
            return dict(self._connections)
