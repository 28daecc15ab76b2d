"""A connection that was used before is used again, and replaced if the server has ended it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import ClosedError, CommitLogError, InvalidOptionError, ReplicationError
from commitlog.network.remote import wire
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.connection import Connection

LIMIT_S = 10.0


@contextmanager
def server_of(answers: int) -> Iterator[tuple[int, list[int]]]:
    """Answer so many requests of each connection, and end it at the next one; yield the port, and
    how many connections there were.
    """
    seen = [0]

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), Channel(connection) as channel:
            for _ in range(answers):
                channel.receive(wire.REQUEST_LIMIT)
                channel.send(wire.text({}))
            channel.receive(wire.REQUEST_LIMIT)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                seen[0] += 1
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1], seen
        listener.shutdown(socket.SHUT_RDWR)


def test_connection_that_just_ended_is_replaced_without_a_wait() -> None:
    with server_of(answers=1) as (port, seen):
        server = Connection(f"tcp://127.0.0.1:{port}/log")
        for count in (1, 2, 3):
            assert server.ask("look", limit_s=0) == {"protocol": wire.PROTOCOL}
            assert seen == [count]
        server.close()


def test_connection_is_used_again_until_it_is_old() -> None:
    with server_of(answers=10) as (port, seen):
        server = Connection(f"tcp://127.0.0.1:{port}/log")
        for _ in range(3):
            server.ask("look", limit_s=0)
        assert seen == [1]
        server.close_unused(0)
        server.ask("look", limit_s=0)
        assert seen == [2]
        server.close()


def test_call_during_a_close_raises_closed_error() -> None:
    raised: list[CommitLogError] = []

    def ask(server: Connection) -> None:
        try:
            server.ask("look")
        except CommitLogError as error:
            raised.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Connection(f"tcp://127.0.0.1:{listener.getsockname()[1]}/log")
        asking = threading.Thread(target=ask, args=(server,))
        asking.start()
        peer, _ = listener.accept()
        with peer, Channel(peer) as channel:
            channel.receive(wire.REQUEST_LIMIT)  # and never answer
            server.close()
            asking.join(LIMIT_S)
    assert [type(each) for each in raised] == [ClosedError]
    with pytest.raises(ClosedError, match="the log is closed: open it again"):
        server.ask("look")


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "a\0b"])
def test_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(InvalidOptionError, match="tcp://"):
        wire.address_of(f"tcp://{host}:7070/orders")


def test_name_server_that_hangs_delays_no_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, released = threading.Event(), threading.Event()
    resolve = socket.getaddrinfo

    def hangs(host: str, *rest: Any, flags: int = 0, **named: Any) -> Any:
        if not flags & socket.AI_NUMERICHOST:
            asked.set()
            released.wait(60)
        return resolve(host, *rest, flags=flags, **named)

    with commitlog.open(tmp_path / "orders"), replication.serve(tmp_path / "orders") as server:
        url = server.url().replace("127.0.0.1", "localhost")
        follower = replication.follow(url, tmp_path / "copy")
        monkeypatch.setattr(socket, "getaddrinfo", hangs)
        follower._cancel()
        assert asked.wait(60)
        follower.close()
        assert not released.is_set()
        with pytest.raises(ReplicationError, match="no name server has answered"):
            replication.follow(url, tmp_path / "other", connect_timeout=0.1)
    released.set()
