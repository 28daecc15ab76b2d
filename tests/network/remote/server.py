"""A server of a log in a process of its own, a proxy that harms what it sends, and a port with
something else.
"""

from __future__ import annotations

import json
import random
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from commitlog.network.remote import wire
from commitlog.network.remote.channel import Channel
from tests.host import start_code

_SERVE = """
import sys
from commitlog import replication
with replication.serve(sys.argv[1], listen=f"127.0.0.1:{sys.argv[2]}") as server:
    print(server.url(), flush=True)
    sys.stdin.read()
"""
_PIECE = 64 << 10
_SMALL = 8 << 10  # what is smaller is not harmed: questions and answers


@contextmanager
def garbage_port() -> Iterator[int]:
    """Listen, and send what is not the protocol."""

    def answer(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with suppress(OSError), peer:
                    peer.sendall(b"220 mail.example ESMTP\r\n" * 10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def answering(answer: Callable[[dict[str, Any]], Iterable[tuple[bytes, bytes]]]) -> Iterator[int]:
    """Listen, and answer each request by some messages, each a head and a body."""

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), Channel(connection) as channel:
            while True:
                content = json.loads(channel.receive(wire.REQUEST_LIMIT)[0])
                for message in answer(content):
                    channel.send(*message)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(path: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a log in a child process; yield the process and the URL."""
    child = start_code(
        _SERVE,
        path,
        port,
        imports=("commitlog.replication",),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class FlippingProxy:
    """Pass bytes between readers and a server, and flip a bit in some large messages."""

    def __init__(self, port: int, flips: int, seed: int) -> None:
        self._target = port
        self.left = flips
        self._random = random.Random(seed)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                threading.Thread(target=self._pass, args=(near,), daemon=True).start()

    def _pass(self, near: socket.socket) -> None:
        far = socket.create_connection(("127.0.0.1", self._target))
        with suppress(OSError), near, far:
            while True:
                for source in select.select([near, far], [], [])[0]:
                    piece = bytearray(source.recv(_PIECE))
                    if not piece:
                        return
                    if source is far and len(piece) > _SMALL and self.left > 0:
                        self.left -= 1
                        piece[self._random.randrange(len(piece))] ^= 1 << self._random.randrange(8)
                    (far if source is near else near).sendall(piece)

    def close(self) -> None:
        self._socket.close()
