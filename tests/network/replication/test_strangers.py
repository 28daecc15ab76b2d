"""Clients that a server does not know: they neither keep others out nor hold it up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.network.remote import wire
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.wire import Address, RefusedError, server_context
from commitlog.network.replication.listener import Listener
from tests.certificates import certificate
from tests.network.replication.scene import LIMIT_S

TOKEN = "right"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", flush="sync") as log:
        log.append(b"one")
        yield log


@pytest.fixture
def server(log: commitlog.CommitLog) -> Iterator[replication.Server]:
    with replication.serve(log.path, token=TOKEN) as server:
        yield server


def connection_to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def said(server: replication.Server, content: dict[str, Any] | bytes) -> bytes:
    """Send a request, and return the answer; the connection ends after it."""
    with Channel(connection_to(server.port)) as client:
        client.send(content if isinstance(content, bytes) else wire.text(content))
        answer, _ = client.receive(wire.TEXT_LIMIT)
        with pytest.raises(ConnectionResetError):
            client.receive(wire.TEXT_LIMIT)
        return answer


@pytest.mark.parametrize("begun", [b"", b"\0" * 10], ids=["silent", "slow"])
def test_strangers_keep_no_follower_out(
    begun: bytes,
    server: replication.Server,
    log: commitlog.CommitLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("commitlog.network.replication.listener._CONNECTIONS_LIMIT", 4)
    with contextlib.ExitStack() as strangers:
        for _ in range(12):
            strangers.enter_context(connection_to(server.port)).sendall(begun)
        with replication.follow(server.url(), tmp_path / "copy", token=TOKEN) as follower:
            for _ in range(12):
                strangers.enter_context(connection_to(server.port)).sendall(begun)
            position = log.append(b"two")
            assert server.wait_replicated(position, timeout=LIMIT_S)
            assert follower.error is None


@pytest.mark.parametrize("token", [None, "", "wrong", 1, [TOKEN], {"right": 1}])
def test_refused_token_ends_the_connection(server: replication.Server, token: object) -> None:
    answer = said(server, {"action": "look", "log": "orders", "token": token})
    with pytest.raises(RefusedError, match="missing or wrong"):
        wire.answer_of(answer, "the server")


def test_missing_token_is_no_text(log: commitlog.CommitLog) -> None:
    with replication.serve(log.path, token="None") as server:
        answer = said(server, {"action": "look", "log": "orders"})
        assert json.loads(answer)["refused"] == "token"


@pytest.mark.parametrize("name", ["token", "log", "action", "protocol"])
def test_value_of_any_depth_is_refused(server: replication.Server, name: str) -> None:
    values = {"protocol": "1", "action": '"look"', "log": '"orders"', "token": f'"{TOKEN}"'}
    for depth in (*range(900, 1000), 10_000):
        deep = {**values, name: "[" * depth + "]" * depth}
        text = ", ".join(f'"{key}": {value}' for key, value in deep.items())
        with Channel(connection_to(server.port)) as client:
            client.send(f"{{{text}}}".encode())
            assert b"refused" in client.receive(wire.TEXT_LIMIT)[0]


def test_thread_that_cannot_start_refuses_one_connection(
    server: replication.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, failures = threading.Thread.start, iter([RuntimeError, MemoryError])

    def fail(thread: threading.Thread) -> None:
        if thread.name == "commitlog serve" and (error := next(failures, None)):
            raise error("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail)
    replication.follow(server.url(), tmp_path / "copy", token=TOKEN).close()
    assert next(failures, None) is None


@pytest.mark.parametrize("encrypted", [False, True])
def test_close_does_not_wait_for_strangers(encrypted: bool, tmp_path: Path) -> None:
    context: ssl.SSLContext | None = None
    if encrypted:
        context = server_context(*certificate(tmp_path, "127.0.0.1"))
    served = threading.Semaphore(0)

    def serve(channel: Channel) -> None:
        served.release()
        channel.receive(16)

    listener = Listener(Address("127.0.0.1", 0, encrypted), context, serve)
    with connection_to(listener.port), connection_to(listener.port):
        if not encrypted:
            assert served.acquire(timeout=LIMIT_S)
            assert served.acquire(timeout=LIMIT_S)
        assert listener.close(LIMIT_S)
        assert listener.close(LIMIT_S)


def test_child_of_a_fork_closes_neither_server_nor_follower(
    server: replication.Server, log: commitlog.CommitLog, tmp_path: Path
) -> None:
    with replication.follow(server.url(), tmp_path / "copy", token=TOKEN) as follower:
        with server._sessions._lock, follower._primary._endpoint._lock:
            child = os.fork()
            if child == 0:
                signal.alarm(int(LIMIT_S))
                server.close()
                follower.close()
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert server.wait_replicated(log.append(b"two"), timeout=LIMIT_S)


def test_server_waits_for_a_port_whose_server_has_just_died(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, create = socket.create_server(("127.0.0.1", 0)), socket.create_server
    port = last.getsockname()[1]

    def try_once(*given: Any, **named: Any) -> socket.socket:
        try:
            return create(*given, **named)
        finally:
            last.close()

    monkeypatch.setattr(socket, "create_server", try_once)
    with replication.serve(log.path, listen=f"127.0.0.1:{port}") as server:
        assert server.port == port
