"""A TCP proxy that does to connections what a bad network does."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from typing import Literal, Self

Way = Literal["up", "down"]
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Proxy:
    """Forward connections to a port of this machine.

    Attributes
    ----------
    delay_s : float
        How long each piece of bytes waits.
    flips, tears : float
        The probability that a piece gets one wrong bit, or ends in its middle with its connection.
    doubles : bool
        Each new connection is made twice at the target, which gets its bytes twice.
    """

    def __init__(self, target: int, numbers: random.Random) -> None:
        self.target = target
        self.accepted = 0  # connections
        self.delay_s = self.flips = self.tears = 0.0
        self.doubles = False
        self._numbers = numbers
        self._passes: dict[Way, threading.Event] = {
            "up": threading.Event(),
            "down": threading.Event(),
        }
        self._closed = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heal()
        self._start(self._accept)

    def url(self, log: str) -> str:
        """Return the URL of a log behind the proxy."""
        return f"tcp://127.0.0.1:{self.port}/{log}"

    def hold(self, *ways: Way) -> None:
        """Let no bytes pass to the target ("up") or from it ("down"), and lose none."""
        for way in ways:
            self._passes[way].clear()

    def heal(self) -> None:
        """End every fault; what was held goes on."""
        self.delay_s = self.flips = self.tears = 0.0
        self.doubles = False
        for passes in self._passes.values():
            passes.set()

    def cut(self) -> None:
        """Reset every connection."""
        with self._lock:
            ended, self._sockets = self._sockets, set()
        for each in ended:
            _reset(each)

    def close(self) -> None:
        self._closed.set()
        _reset(self._listener)
        self.heal()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- threads ----------------------------------------------------------------------------------

    @staticmethod
    def _start(target: object, *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(OSError):
                client = self._listener.accept()[0]
                self.accepted += 1
                self._join(client)

    def _join(self, client: socket.socket) -> None:
        """Connect a client to the target, or to nothing if nothing listens there."""
        try:
            targets = [self._connected() for _ in range(1 + self.doubles)]
        except OSError:
            _reset(client)
            return
        with self._lock:
            self._sockets |= {client, *targets}
        self._start(self._pump, "up", client, targets)
        self._start(self._pump, "down", targets[0], [client])
        for target in targets[1:]:  # its answers are dropped
            self._start(self._pump, "down", target, [])

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.target), 5)

    def _pump(self, way: Way, source: socket.socket, sinks: list[socket.socket]) -> None:
        with contextlib.suppress(OSError):
            source.settimeout(None)
            while piece := source.recv(1 << 16):
                self._closed.wait(self.delay_s)
                self._passes[way].wait()
                if self._numbers.random() < self.flips:
                    piece = self._flipped(piece)
                torn = self._numbers.random() < self.tears
                for sink in sinks:
                    sink.sendall(piece[: len(piece) // 2] if torn else piece)
                if torn:
                    break
        for each in (source, *sinks):
            with self._lock:
                self._sockets.discard(each)
            _reset(each)

    def _flipped(self, piece: bytes) -> bytes:
        bit = self._numbers.randrange(8 * len(piece))
        wrong = bytearray(piece)
        wrong[bit // 8] ^= 1 << bit % 8
        return bytes(wrong)


def _reset(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)  # ends a thread that waits in recv
    each.close()
