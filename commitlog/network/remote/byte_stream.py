"""The bytes of a connection, with or without TLS: one thread sends, another one may receive."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence

from commitlog.base.host import host

_PIECE_BYTES = 256 << 10
_SLOWEST = 16 << 10  # bytes a second; a slower peer counts as lost
_TIMEVAL = struct.Struct("@ll")
_LONGEST_MS = (1 << 31) - 1
Part = bytes | memoryview


class PlainStream:
    """Bytes without TLS. Each wait for the other side has a limit.

    Parameters
    ----------
    connection : socket
        A connected socket that blocks.
    limit_s : float
        How long to wait for the other side, at most: see `wait_at_most`.
    """

    def __init__(self, connection: socket.socket, limit_s: float) -> None:
        self._socket = connection
        self._limit_s = -1.0
        self.wait_at_most(limit_s)

    def wait_at_most(self, limit_s: float) -> None:
        """End each later wait for the other side after so many seconds."""
        if limit_s == self._limit_s:
            return
        self._limit_s = limit_s
        limit = _TIMEVAL.pack(int(limit_s), int(limit_s % 1 * 1e6) or 1)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, option, limit)
        limit_ms = min(max(1, int(limit_s * 1e3)), _LONGEST_MS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)

    def due_s(self, due_s: float, size: int) -> float:
        """Return by when so many bytes have to be moved, of which some are missing; `due_s` is what
        the last call has returned, 0 before. Raise if it has passed.
        """
        now_s = host.monotonic()
        if due_s and now_s > due_s:
            raise TimeoutError("the other side is too slow")
        return due_s or now_s + self._limit_s + size / _SLOWEST

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts."""
        left = [memoryview(part) for part in parts if len(part)]
        due_s = 0.0
        while left:
            try:
                sent = self._socket.sendmsg(left)
            except BlockingIOError:
                raise self._silence() from None
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]
                due_s = self.due_s(due_s, sum(map(len, left)))

    def receive_into(self, view: memoryview) -> int:
        """Receive up to so many bytes; return how many, 0 at the end."""
        try:
            return self._socket.recv_into(view)
        except BlockingIOError:
            raise self._silence() from None

    def _silence(self) -> TimeoutError:
        return TimeoutError(f"the other side did nothing for {self._limit_s:.3g} s")


class TlsStream:
    """Bytes through TLS.

    TLS itself is in memory, under a lock that no thread holds while it waits for the connection:
    two threads must not use one TLS object at once.

    Parameters
    ----------
    plain : PlainStream
        Brings the bytes of TLS.
    context : ssl.SSLContext
        Certificates.
    name : str, optional
        The name in the other side's certificate; None at the server.
    """

    def __init__(self, plain: PlainStream, context: ssl.SSLContext, name: str | None) -> None:
        self._plain = plain
        self._lock = host.lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=name is None, server_hostname=name
        )
        self._raw = memoryview(bytearray(_PIECE_BYTES))
        self._has_more = False
        self._shake_hands()

    def _shake_hands(self) -> None:
        due_s = 0.0
        while True:
            try:
                self._tls.do_handshake()
                self._has_more = bool(self._incoming.pending)  # the first message may be here
                return
            except ssl.SSLWantReadError:
                pass
            finally:  # also the reason of a refusal
                self._plain.send([self._outgoing.read()])
            due_s = self._plain.due_s(due_s, 0)
            if not self._take():
                raise ConnectionResetError("the other side has closed the connection")

    def _take(self) -> int:
        count = self._plain.receive_into(self._raw)
        with self._lock:
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
        due_s = 0.0
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
                    due_s = self._plain.due_s(due_s, 0) if not self._has_more else due_s
                    self._has_more = False
                except ssl.SSLZeroReturnError:
                    return 0
