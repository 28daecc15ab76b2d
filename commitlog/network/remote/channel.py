"""Channel: messages over a connection between two machines, with or without TLS."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Self

from commitlog.base.checksum import crc32c
from commitlog.network.remote import sockets
from commitlog.network.remote.byte_stream import PlainStream, TlsStream

SILENCE_S = 10.0  # in which the other side has to take or to send something
_START = struct.Struct("<4I")  # number of the message, bytes of head and body, CRC of the body
_CRC = struct.Struct("<I")  # of the start and the head
_PREFIX_BYTES = _START.size + _CRC.size
_NUMBERS = 1 << 32
_STORE_BYTES = 64 << 10
_JOINED_BYTES = 16 << 10  # a body that is sent together with its head
_BODY_KEPT_BYTES = 2 << 20


class Channel:
    """Send and receive messages. One thread may send while another one receives.

    A message is a head and a body. Both have a CRC, and messages are numbered, so one that was
    damaged, lost or repeated ends the connection. Each wait for the other side has a limit, and so
    has a whole message. Every error is an `OSError`.

    Parameters
    ----------
    connection : socket
        A connected socket. It belongs to the channel.
    context : ssl.SSLContext, optional
        For TLS, which begins at once.
    host : str, optional
        The name in the other side's certificate; None at the server.
    limit_s : float
        How long to wait for the other side, at most: see `wait_at_most`.

    Attributes
    ----------
    trusted : bool
        Whether the server has let the other side in.
    """

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext | None = None,
        host: str | None = None,
        *,
        limit_s: float = SILENCE_S,
    ) -> None:
        self._socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)  # the timeouts of Python are a system call more for each piece
        self.trusted = False
        self._sent = self._received = 0
        self._store = memoryview(bytearray(_STORE_BYTES))
        self._begin = self._end = 0  # of what is in the store
        self._body = bytearray()
        self._plain = PlainStream(connection, limit_s)
        self._stream = self._plain if context is None else TlsStream(self._plain, context, host)

    # --- messages ---------------------------------------------------------------------------------

    def send(self, head: bytes, body: bytes | memoryview = b"", crc: int | None = None) -> None:
        """Send a message; `crc` is that of the body, if it is known."""
        start = _START.pack(self._sent, len(head), len(body), crc32c(body) if crc is None else crc)
        self._sent = (self._sent + 1) % _NUMBERS
        parts = [start, _CRC.pack(crc32c(start + head)), head]
        if len(body) <= _JOINED_BYTES:
            self._stream.send([b"".join((*parts, body))])
        else:
            self._stream.send([b"".join(parts), body])

    def receive(self, head_limit: int, body_limit: int = 0) -> tuple[bytes, memoryview]:
        """Return the next message. The next call overwrites its body."""
        prefix = bytes(self._stored(_PREFIX_BYTES))
        start, crc = prefix[: _START.size], prefix[_START.size :]
        number, head_size, body_size, body_crc = _START.unpack(start)
        if number != self._received or head_size > head_limit or body_size > body_limit:
            raise _damaged()
        head = bytes(self._taken(bytearray(head_size), head_size))
        if _CRC.pack(crc32c(start + head)) != crc:
            raise _damaged()
        if body_size > len(self._body) or len(self._body) > _BODY_KEPT_BYTES:
            self._body = bytearray(body_size)
        body = self._taken(self._body, body_size)
        if crc32c(body) != body_crc:
            raise _damaged()
        self._received = (number + 1) % _NUMBERS
        return head, body

    def _stored(self, size: int) -> memoryview:
        """Return the next few bytes out of the store, which is filled as far as bytes are here."""
        due_s = 0.0
        while self._end - self._begin < size:
            if self._begin < self._end:  # a part of it is here
                due_s = self._plain.due_s(due_s, 0)
            if self._begin:
                left = bytes(self._store[self._begin : self._end])
                self._store[: len(left)] = left
                self._begin, self._end = 0, len(left)
            self._end += self._read(self._store[self._end :])
        self._begin += size
        return self._store[self._begin - size : self._begin]

    def _taken(self, target: bytearray, size: int) -> memoryview:
        """Receive so many bytes into a target, first what is in the store."""
        view = memoryview(target)[:size]
        known = min(self._end - self._begin, size)
        view[:known] = self._store[self._begin : self._begin + known]
        self._begin += known
        due_s = 0.0
        while known < size:
            due_s = self._plain.due_s(due_s, size)
            known += self._read(view[known:])
        return view

    def _read(self, view: memoryview) -> int:
        count = self._stream.receive_into(view)
        if not count:
            raise ConnectionResetError("the other side has closed the connection")
        return count

    # --- the connection ---------------------------------------------------------------------------

    def wait_at_most(self, limit_s: float) -> None:
        """End each later wait for the other side after so many seconds."""
        self._plain.wait_at_most(limit_s)

    @property
    def is_unused(self) -> bool:
        """Whether the connection is open, and the other side has sent nothing more."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return self._begin == self._end
        except OSError:
            return False
        return False

    def end(self) -> None:
        """Send no more. The other side receives what was sent, and then the end."""
        sockets.end(self._socket, socket.SHUT_WR)

    def cancel(self) -> None:
        """End the connection, also for threads that wait; from any thread, also twice."""
        sockets.end(self._socket)

    def close(self) -> None:
        """Release the socket. No other thread may use it any more, except for `cancel`."""
        self.cancel()
        sockets.close(self._socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _damaged() -> ConnectionError:
    return ConnectionError("the other side sent something that is not a message of this protocol")
