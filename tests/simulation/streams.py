"""Streams: simulated sockets between machines, with delays, losses and halves of partitions."""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

from tests.simulation.world import World

_RETRY_S = 0.3  # of what a partition keeps
_LATE = 24  # one of so many sends is followed by a pause


class Network:
    """What listens where, and which directions are cut."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listening: dict[tuple[str, int], Socket] = {}
        self.cut: set[tuple[str, str]] = set()
        self.slow_s = 0.0

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self.cut

    def delay_s(self) -> float:
        return self.world.choices.between(1e-4, 4e-3) + self.slow_s


class Socket:
    """One end of a connection, as `Channel` and `Listener` use it."""

    def __init__(self, network: Network, process: Any) -> None:
        self._network = network
        self._world = network.world
        self.process = process
        process.sockets.append(self)
        self._peer: Socket | None = None
        self._inbox = bytearray()
        self._ended = False  # the other side sends no more
        self._broken: type[OSError] | None = None
        self._shut = False  # this side sends no more
        self._due_s = 0.0
        self._flying: deque[tuple[float, bytes | None]] = deque()
        self._limit_s: float | None = None
        self._reader: Any = None
        self._where: tuple[str, int] | None = None
        self._waiting: list[Socket] = []

    # --- options ----------------------------------------------------------------------------------

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if option == socket.SO_RCVTIMEO:
            seconds, micros = struct.unpack("@ll", value)
            self._limit_s = seconds + micros / 1e6

    def settimeout(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    def getsockname(self) -> tuple[str, int]:
        assert self._where is not None
        return self._where

    # --- connecting -------------------------------------------------------------------------------

    def listen(self, where: tuple[str, int]) -> None:
        if where in self._network.listening:
            raise OSError(errno.EADDRINUSE, "in use")
        self._where = where
        self._network.listening[where] = self

    def accept(self) -> tuple[Socket, Any]:
        while not self._waiting:
            if self._broken or self._shut:
                raise OSError(errno.EINVAL, "the socket is shut")
            self._reader = self._world.current
            self._world.block()
        return self._waiting.pop(0), None

    def connect(self, where: tuple[str, int]) -> None:
        network, host = self._network, self.process.machine.host
        until_s = self._world.now_s + (self._limit_s or 1.0)
        self._world.sleep(network.delay_s())
        there = str(where[0])
        while not (network.passes(host, there) and network.passes(there, host)):
            if self._world.now_s >= until_s:
                raise TimeoutError("no answer")
            self._world.sleep(min(_RETRY_S, max(until_s - self._world.now_s, 1e-3)))
        listener = network.listening.get((there, int(where[1])))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        theirs = Socket(network, listener.process)
        self._peer, theirs._peer = theirs, self
        listener._waiting.append(theirs)
        listener._wake()

    # --- bytes ------------------------------------------------------------------------------------

    def sendmsg(self, parts: Sequence[Any]) -> int:
        self._world.give_way()
        if self._broken:
            raise self._broken(errno.ECONNRESET, "reset")
        if self._shut or self._peer is None:
            raise BrokenPipeError(errno.EPIPE, "ended")
        content = b"".join(bytes(part) for part in parts)
        self._send(content)
        if self._world.choices.happens(_LATE):
            self._world.sleep(2 * self._network.delay_s())  # the thread lost its turn
        return len(content)

    def _send(self, content: bytes | None) -> None:
        """Bring bytes, or the end, to the other side, in order."""
        peer = self._peer
        assert peer is not None
        self._due_s = max(self._due_s, self._world.now_s + self._network.delay_s())
        source, target = self.process.machine.host, peer.process.machine.host

        self._flying.append((self._due_s, content))

        def arrive() -> None:
            if not self._network.passes(source, target):
                self._world.at(self._world.now_s + _RETRY_S, arrive)
                return
            while self._flying and self._flying[0][0] <= self._world.now_s:
                found = self._flying.popleft()[1]
                if found is None:
                    peer._ended = True
                else:
                    peer._inbox += found
            peer._wake()

        self._world.at(self._due_s, arrive)

    def _wake(self) -> None:
        if self._reader is not None:
            self._world.wake(self._reader)

    def recv_into(self, view: memoryview) -> int:
        until_s = None if self._limit_s is None else self._world.now_s + self._limit_s
        while not self._inbox:
            if self._broken:
                raise self._broken(errno.ECONNRESET, "reset")
            if self._ended:
                return 0
            if until_s is not None and self._world.now_s >= until_s:
                raise BlockingIOError(errno.EAGAIN, "silence")
            self._reader = self._world.current
            self._world.block(until_s)
        count = min(len(view), len(self._inbox))
        view[:count] = self._inbox[:count]
        del self._inbox[:count]
        return count

    def recv(self, size: int, flags: int = 0) -> bytes:
        if self._inbox:
            return bytes(self._inbox[:size])
        if self._broken:
            raise self._broken(errno.ECONNRESET, "reset")
        if self._ended:
            return b""
        raise BlockingIOError(errno.EAGAIN, "nothing yet")

    # --- ends -------------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        if self._where is not None:
            self._shut = True
            self._wake()
            return
        if self._peer is None or self._broken:
            raise OSError(errno.ENOTCONN, "not connected")
        if not self._shut:
            self._shut = True
            self._send(None)
        if how == socket.SHUT_RDWR:
            self._ended = True
            self._wake()

    def close(self) -> None:
        if self._where is not None:
            if self._network.listening.get(self._where) is self:
                del self._network.listening[self._where]
        elif self._peer is not None and not self._shut:
            self._shut = True
            self._send(None)
        self._broken = self._broken or ConnectionAbortedError
        if self in self.process.sockets:
            self.process.sockets.remove(self)

    def reset(self, *, both: bool = True) -> None:
        """Break the connection; the other side finds out if it can be reached."""
        self._broken = ConnectionResetError
        self._wake()
        peer = self._peer
        if both and peer is not None:
            self._world.at(self._world.now_s + 1e-3, lambda: peer.reset(both=False))

    def die(self) -> None:
        """The process was killed: the port is free, and connections break."""
        if self._where is not None and self._network.listening.get(self._where) is self:
            del self._network.listening[self._where]
        for each in self._waiting:
            each.reset()
        if self._peer is not None:
            peer = self._peer
            source, target = self.process.machine.host, peer.process.machine.host
            if self._network.passes(source, target):
                self._world.at(self._world.now_s + 1e-3, lambda: peer.reset(both=False))
