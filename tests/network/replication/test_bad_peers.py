"""Wrong tokens, logs, versions, certificates and peers: one clear error, no byte changed, and a
primary that goes on.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, ReplicationError
from commitlog.log.open_calls import open_log
from commitlog.network.remote import wire as remote_wire
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication import wire
from commitlog.network.replication.follower_stream import FollowerStream
from commitlog.network.replication.replica import fence_closed
from commitlog.network.replication.served import Served
from commitlog.recovery.lineage import Rank
from tests.certificates import certificate
from tests.network.remote.server import answering, garbage_port
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill, records
from tests.tools.cli.program import run


class Peer(NamedTuple):
    """Where a follower or a reader connects, and what it sends and trusts."""

    url: str
    token: str | None = None
    roots: str | None = None


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    """A primary; each test leaves it as it was, and it goes on."""
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, flush="sync") as log:
        fill(log, 150)
        before = records(Path(log.path))
        yield log
        log.append(b"news")
        assert records(Path(log.path))[: len(before)] == before
        copy_of(log, tmp_path / "good copy")
        assert records(tmp_path / "good copy") == records(Path(log.path))


def copy_of(log: commitlog.CommitLog, copy: Path) -> None:
    with (
        replication.serve(log.path) as server,
        replication.follow(server.url(), copy) as follower,
    ):
        assert follower.wait(log.flushed_position, LIMIT_S)


def of_version(version: int, content: dict[str, Any]) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_wire, "PROTOCOL", version)
        return remote_wire.text(content)


@contextmanager
def bad_peer(kind: str, log: commitlog.CommitLog, folder: Path) -> Iterator[Peer]:
    with ExitStack() as ends:
        if kind == "garbage":
            yield Peer(f"tcp://127.0.0.1:{ends.enter_context(garbage_port())}/orders")
        elif kind == "newer":
            port = ends.enter_context(answering(lambda _: [(of_version(2, {}), b"")]))
            yield Peer(f"tcp://127.0.0.1:{port}/orders")
        elif kind in {"expired", "strange", "elsewhere"}:
            host = "192.0.2.1" if kind == "elsewhere" else "127.0.0.1"
            pair = certificate(folder, host, days=-1 if kind == "expired" else 1)
            roots = certificate(folder, "192.0.2.2")[0] if kind == "strange" else pair[0]
            server = ends.enter_context(replication.serve(log.path, tls=pair))
            yield Peer(server.url(), roots=roots)
        else:
            server = ends.enter_context(replication.serve(log.path, token="right"))
            url = server.url() + ("-old" if kind == "other name" else "")
            yield Peer(url, {"no token": None, "wrong token": "wrong"}.get(kind, "right"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no token", "token"),
        ("wrong token", "token"),
        ("other name", "there is no log 'orders-old' here"),
        ("newer", "speaks version 2 of the protocol, and this side 1: upgrade"),
        ("expired", "is refused: certificate has expired; correct"),
        ("strange", "is refused: self-signed certificate; correct"),
        (
            "elsewhere",
            "certificate is not valid for '127.0.0.1'; correct",
        ),
        ("garbage", "check host, port, TLS and that the server runs"),
    ],
)
def test_bad_peer_is_one_clear_error(
    kind: str,
    said: str,
    orders: commitlog.CommitLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "copy"
    copy_of(orders, copy)
    before = files_of(copy)
    with bad_peer(kind, orders, tmp_path) as peer:
        for name, value in (("TOKEN", peer.token), ("TLS_ROOTS", peer.roots)):
            if value is not None:
                monkeypatch.setenv(f"COMMITLOG_{name}", value)
        for path in (copy, tmp_path / "new"):
            with pytest.raises(ReplicationError) as caught:
                replication.follow(
                    peer.url, path, token=peer.token, tls_roots=peer.roots, connect_timeout=1
                )
            assert said in str(caught.value)
        with pytest.raises(ReplicationError) as caught:
            commitlog.open(peer.url, "r", wait_for_log=1)
        assert said in str(caught.value)
        if kind == "garbage":
            return  # the command has no limit of time
        roots = [] if peer.roots is None else ["--tls-roots", peer.roots]
        for command in (["follow", *roots, peer.url, tmp_path / "new"], ["cat", peer.url]):
            done = run(*command)
            assert (done.returncode, done.stdout) == (1, b"")
            assert said in done.stderr.decode().splitlines()[-1]
            assert b"Traceback" not in done.stderr
    assert files_of(copy) == before
    assert not (tmp_path / "new").exists()


def test_older_client_is_told_which_side_to_upgrade(orders: commitlog.CommitLog) -> None:
    with replication.serve(orders.path) as server:
        for action in ("describe", "read", "follow"):
            with Channel(socket.create_connection(("127.0.0.1", server.port))) as client:
                client.send(of_version(0, {"log": "orders", "action": action}))
                with pytest.raises(RefusedError, match="upgrade commitlog at the client"):
                    remote_wire.answer_of(client.receive(remote_wire.TEXT_LIMIT)[0], "the server")


@pytest.mark.parametrize("kind", ["another log", "ahead"])
def test_copy_that_does_not_fit_is_left_unchanged(
    kind: str, orders: commitlog.CommitLog, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    if kind == "ahead":
        copy_of(orders, copy)
        served = tmp_path / "restored"
        served.mkdir()
        end = SEGMENT  # an older state of the primary: its first segment only
        for path in Path(orders.path).glob("[!.]*"):  # none that is being written
            if path.suffix != ".seg" or int(path.stem) < end:
                (served / path.name).write_bytes(path.read_bytes())
        said, error = "the server has lost records; promote the copy", FencedError
    else:
        commitlog.open(copy).close()
        served = Path(orders.path)
        said, error = "is another log than the one in this directory", ReplicationError
    before = files_of(copy)
    with replication.serve(served) as server:
        with pytest.raises(error, match=said):  # type: ignore[call-overload]
            replication.follow(server.url(), copy)
        done = run("follow", server.url(), copy)
    assert done.returncode == 1
    assert said in done.stderr.decode().splitlines()[-1]
    after = files_of(copy)
    assert {name: after[name] for name in after if name.endswith((".seg", "json"))} == {
        name: before[name] for name in before if name.endswith((".seg", "json"))
    }


def test_garbage_on_the_port_leaves_the_followers(
    orders: commitlog.CommitLog, tmp_path: Path
) -> None:
    with (
        replication.serve(orders.path) as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(1 << 20), b"PRI * HTTP/2.0\r\n\r\n"):
            with suppress(OSError), socket.create_connection(("127.0.0.1", server.port)) as peer:
                peer.sendall(garbage)
        fill(orders, 20)
        assert follower.wait(orders.flushed_position, LIMIT_S)


def test_message_that_is_no_chunk_is_refused() -> None:
    head, body, _ = wire.Chunk(0, 4096, 4096, frames=bytes(64)).message()
    for wrong in (b"", head[:-1], head + b"more", b"\xff" + head[1:]):
        with pytest.raises(ReplicationError, match="not a chunk"):
            wire.chunk_of(wrong, memoryview(body), "a")
    with pytest.raises(ReplicationError, match="not a chunk"):
        wire.chunk_of(head, memoryview(b""), "a")


@pytest.fixture
def served(orders: commitlog.CommitLog) -> Iterator[Served]:
    served = Served(open_log(orders.path, "r"), functools.partial(fence_closed, orders.path))
    yield served
    served.log.close()


def stream_of(served: Served) -> FollowerStream:
    said = {"name": "b", "rank": Rank()._asdict(), "position": 0, "unsealed": []}
    return FollowerStream(served, said)


@contextmanager
def follower_of(stream: FollowerStream) -> Iterator[Channel]:
    """Run the server's end of a stream, and yield the follower's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with Channel(near) as client, Channel(far) as server:
        thread = threading.Thread(target=stream.run, args=(server, lambda: True))
        thread.start()
        yield client
        thread.join(LIMIT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("garbage", [b"", b"x", b"{}", bytes(1 << 20)])
def test_follower_that_sends_garbage_is_left(served: Served, garbage: bytes) -> None:
    with follower_of(stream_of(served)) as client:
        client.send(garbage[:64], garbage)
