"""The bytes of a connection, with or without TLS: one thread sends, another one may receive."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence

_PIECE_BYTES = 256 << 10
Part = bytes | memoryview


class PlainStream:
    """Bytes without TLS.

    Parameters
    ----------
    connection : socket
        A connected socket that blocks.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts."""
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]

    def receive_into(self, view: memoryview) -> int:
        """Receive up to so many bytes; return how many, 0 at the end."""
        return self._socket.recv_into(view)


class TlsStream:
    """Bytes through TLS.

    TLS itself is in memory, under a lock that no thread holds while it waits for the connection:
    two threads must not use one TLS object at once.

    Parameters
    ----------
    connection : socket
        A connected socket that blocks.
    context : ssl.SSLContext
        Certificates.
    host : str, optional
        The name in the other side's certificate; None at the server.
    """

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, host: str | None
    ) -> None:
        self._plain = PlainStream(connection)
        self._lock = threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._raw = memoryview(bytearray(_PIECE_BYTES))
        self._has_more = False
        self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass
            finally:  # also the reason of a refusal
                self._plain.send([self._outgoing.read()])
            if not self._take():
                raise ConnectionResetError("the other side has closed the connection")

    def _take(self) -> int:
        count = self._plain.receive_into(self._raw)
        self._incoming.write(self._raw[:count])
        return count

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts."""
        for part in parts:
            for begin in range(0, len(part), _PIECE_BYTES):
                with self._lock:
                    self._tls.write(part[begin : begin + _PIECE_BYTES])
                    sealed = self._outgoing.read()
                self._plain.send([sealed])

    def receive_into(self, view: memoryview) -> int:
        """Receive up to so many bytes; return how many, 0 at the end."""
        while True:
            if not self._has_more and not self._take():
                return 0
            with self._lock:
                try:
                    count = int(self._tls.read(len(view), view))
                    # A part of a record stays in `incoming` until its end comes.
                    self._has_more = bool(self._tls.pending() or self._incoming.pending)
                    return count
                except ssl.SSLWantReadError:
                    self._has_more = False
                except ssl.SSLZeroReturnError:
                    return 0
