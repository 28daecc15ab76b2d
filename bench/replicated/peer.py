"""The other machine: a process that follows logs, on loopback or in a network namespace of its own.

``python -m bench.replicated.peer`` runs it: it prints the port of its echo, then takes commands of
one line each from its input, and answers each with a line.
"""

from __future__ import annotations

import collections
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

import commitlog
from commitlog.replication import Follower, follow

_OURS, _THEIRS = "10.213.7.1", "10.213.7.2"
_NETWORK = "commitlog-bench"
_PIECE = 1 << 18
_TICKS = os.sysconf("SC_CLK_TCK")


class Peer:
    """The process, and the network between.

    Parameters
    ----------
    namespaced : bool
        Put it into a network namespace, joined to this one by a veth; needs root.
    delay_s : float
        How long each byte takes on each way, by a proxy of this process's machine.
    """

    def __init__(self, *, namespaced: bool, delay_s: float) -> None:
        self._namespaced, self._delay_s = namespaced, delay_s
        self._proxies: list[subprocess.Popen[str]] = []
        before: list[str] = []
        if namespaced:
            self._remove_network()
            for command in (
                f"netns add {_NETWORK}",
                f"link add clbench0 type veth peer name clbench1 netns {_NETWORK}",
                f"addr add {_OURS}/24 dev clbench0",
                "link set clbench0 up",
                f"-n {_NETWORK} addr add {_THEIRS}/24 dev clbench1",
                f"-n {_NETWORK} link set clbench1 up",
            ):
                subprocess.run(["ip", *command.split()], check=True)
            before = ["ip", "netns", "exec", _NETWORK]
        self._process = self._python(before, "peer", _THEIRS if namespaced else "127.0.0.1")
        self._echo_port = int(self._line())

    @staticmethod
    def _python(before: list[str], *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, sys.executable, "-m", "bench.replicated.peer", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the follower's process has ended: see its message above")
        return line.strip()

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._line()

    @property
    def host(self) -> str:
        """The address of this side."""
        return _OURS if self._namespaced else "127.0.0.1"

    def follow(self, port: int, log: str, copy: Path) -> None:
        """Have the process follow a log at a port of this side."""
        self._ask(f"follow tcp://{self.host}:{self._delayed(self.host, port)}/{log} {copy}")

    def leave(self) -> None:
        """Have it end its follower."""
        self._ask("leave")

    @contextlib.contextmanager
    def echo(self, log: Path | str = "") -> collections.abc.Iterator[socket.socket]:
        """Connect to a program that sends back what it gets, when it is durable in a log if one is
        named.
        """
        host = _THEIRS if self._namespaced else "127.0.0.1"
        port = self._echo_port
        if self._delay_s:
            host, port = "127.0.0.1", self._delayed(host, port)
        with socket.create_connection((host, port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(f"{log}\n".encode())
            yield connection

    def _delayed(self, host: str, port: int) -> int:
        if not self._delay_s:
            return port
        proxy = self._python([], "delay", self.host, host, str(port), str(self._delay_s))
        self._proxies.append(proxy)
        assert proxy.stdout is not None
        return int(proxy.stdout.readline())

    def cpu_s(self) -> float:
        """Return the processor time that the process has taken."""
        return cpu_s(self._process.pid)

    @staticmethod
    def _remove_network() -> None:
        for command in (f"netns del {_NETWORK}", "link del clbench0"):
            subprocess.run(["ip", *command.split()], check=False, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._process, *self._proxies):
            process.kill()
            process.communicate()
        if self._namespaced:
            self._remove_network()


def cpu_s(process: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _listen(listener: socket.socket) -> None:
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = b""
        while not name.endswith(b"\n"):
            name += connection.recv(1)
        path = name[:-1].decode()
        with commitlog.open(path, flush="sync") if path else contextlib.nullcontext() as log:
            while content := connection.recv(_PIECE):
                if log is not None:
                    log.append(content)
                connection.sendall(content)


def _peer(host: str) -> None:
    listener = socket.create_server((host, 0))
    threading.Thread(target=_listen, args=(listener,), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    follower: Follower | None = None
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "follow":
            follower = follow(*arguments, plain_text=True)
        elif follower is not None:
            follower.close()
        print("done", flush=True)


def _delay(listen: str, host: str, port: str, delay: str) -> None:
    """Forward connections; each byte waits for the delay, and many may wait at the same time."""
    listener = socket.create_server((listen if host == "127.0.0.1" else "127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client = listener.accept()[0]
        target = socket.create_connection((host, int(port)))
        for source, sink in ((client, target), (target, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pieces: collections.deque[tuple[float, bytes]] = collections.deque()
            arrived = threading.Semaphore(0)
            for act in (_take, _give):
                arguments = (source if act is _take else sink, pieces, arrived, float(delay))
                threading.Thread(target=act, args=arguments, daemon=True).start()


def _take(
    source: socket.socket,
    pieces: collections.deque[tuple[float, bytes]],
    arrived: threading.Semaphore,
    delay_s: float,
) -> None:
    piece = b"-"
    while piece:
        try:
            piece = source.recv(_PIECE)
        except OSError:
            piece = b""
        pieces.append((time.monotonic() + delay_s, piece))
        arrived.release()


def _give(
    sink: socket.socket,
    pieces: collections.deque[tuple[float, bytes]],
    arrived: threading.Semaphore,
    _: float,
) -> None:
    piece = b"-"
    while piece:
        arrived.acquire()
        due_s, piece = pieces.popleft()
        rest_s = due_s - time.monotonic()
        if rest_s > 0:
            time.sleep(rest_s)
        with contextlib.suppress(OSError):
            if piece:
                sink.sendall(piece)
            else:
                sink.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    if sys.argv[1] == "delay":
        _delay(*sys.argv[2:])
    else:
        _peer(sys.argv[2])
