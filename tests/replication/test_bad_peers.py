"""Wrong tokens, logs, versions, certificates and peers: one clear error, no byte changed, and a
primary that goes on.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, ReplicationError
from commitlog.log.commit_log import open_log
from commitlog.recovery.lineage import Rank
from commitlog.remote import update as updates
from commitlog.remote import wire as remote_wire
from commitlog.replication import wire
from commitlog.replication.following import Following
from commitlog.replication.replica import fence_closed
from commitlog.replication.served import Served
from tests.certificates import certificate
from tests.cli.program import run
from tests.remote.server import garbage_port
from tests.replication.scene import LIMIT_S, SEGMENT, fill, records

pyarrow = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")


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


class NewerServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers in a newer version of the protocol."""

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        return iter([flight.Result(of_version(2, {}))])


def of_version(version: int, content: dict[str, Any]) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_wire, "PROTOCOL", version)
        return wire.text(content)


@contextmanager
def bad_peer(kind: str, log: commitlog.CommitLog, folder: Path) -> Iterator[Peer]:
    with ExitStack() as ends:
        if kind == "garbage":
            yield Peer(f"tcp://127.0.0.1:{ends.enter_context(garbage_port())}/orders")
        elif kind == "newer":
            newer = NewerServer("grpc://127.0.0.1:0")
            ends.callback(newer.shutdown)
            yield Peer(f"tcp://127.0.0.1:{newer.port}/orders")
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
        ("expired", "is refused: certificate verify failed: certificate has expired; correct"),
        ("strange", "is refused: certificate verify failed: self-signed certificate; correct"),
        ("elsewhere", "is refused: Peer name 127.0.0.1 is not in peer certificate; correct"),
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
    with (
        replication.serve(orders.path) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        body = of_version(0, {"log": "orders"})
        with pytest.raises(flight.FlightServerError, match="upgrade commitlog at the follower"):
            list(client.do_action(flight.Action("describe", body)))
        with pytest.raises(flight.FlightServerError, match="upgrade commitlog at the follower"):
            client.do_get(flight.Ticket(body)).read_chunk()


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
        for path in Path(orders.path).iterdir():
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
    assert {name: after[name] for name in after if name.endswith((".seg", "epoch", "json"))} == {
        name: before[name] for name in before if name.endswith((".seg", "epoch", "json"))
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


def with_wrong_offsets(batch: Any, name: str) -> Any:
    """Return a batch whose column of that name reaches beyond its buffer."""
    columns, at = list(batch.columns), batch.schema.get_field_index(name)
    offsets, content = bytearray(16), columns[at].buffers()[2]
    buffers = [None, pyarrow.py_buffer(offsets), content]
    columns[at] = pyarrow.Array.from_buffers(columns[at].type, 1, buffers)
    made = pyarrow.RecordBatch.from_arrays(columns, schema=batch.schema)
    offsets[:] = struct.pack("<2q", 0, 1 << 40)  # after Arrow's own check
    return made


def test_message_that_reaches_beyond_its_buffer_is_refused() -> None:
    frames = bytes(wire.SHORT_BYTES + 1)
    batch, head = wire.message_of(wire.Chunk(0, 4096, 4096, 0, frames=frames))
    chunk = wire.chunk_of(batch, head, "a")
    assert chunk is not None
    assert bytes(chunk.frames) == frames
    content = batch.column("content").buffers()[2]
    assert pyarrow.py_buffer(chunk.frames).address == content.address  # not a copy
    with pytest.raises(ReplicationError, match="not a chunk"):
        wire.chunk_of(with_wrong_offsets(batch, "content"), head, "a")
    with pytest.raises(ReplicationError, match="not a chunk"):
        wire.chunk_of(batch, head + b"more", "a")
    layout = updates.schema()
    batch = updates.batch_of(updates.Update(0, 0, 64, 64, content=bytes(64)), layout)
    with pytest.raises(updates.DamagedUpdateError):
        updates.update_of(with_wrong_offsets(batch, "content"), layout, "a")


@pytest.mark.parametrize("length", [0, 64, wire.SHORT_BYTES])
def test_short_chunk_needs_no_batch(length: int) -> None:
    sent = wire.Chunk(1, 4096, 8192, 7, frames=bytes(length))
    batch, head = wire.message_of(sent)
    assert batch is None
    got = wire.chunk_of(None, pyarrow.py_buffer(head), "a")
    assert got == sent
    for shorter in (None, b"", head[:20]):
        with pytest.raises(ReplicationError, match="not of this protocol"):
            wire.chunk_of(None, shorter, "a")


def test_grpc_polls_in_the_threads_that_wait() -> None:
    # Of a later pyarrow, check that its gRPC knows the names: an unknown one is on standard error.
    assert remote_wire.pyarrow_version() in remote_wire._POLLERS_KNOWN
    for given in (None, "-event_engine_dns"):
        environment = {**os.environ, "GRPC_EXPERIMENTS": given or ""}
        if given is None:
            del environment["GRPC_EXPERIMENTS"]
        code = (
            "from commitlog.remote import wire; import os; wire.flight();"
            "print(os.environ.get('GRPC_EXPERIMENTS'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        )
        assert (done.stdout.decode().strip(), done.stderr) == (str(given), b"")


@pytest.fixture
def served(orders: commitlog.CommitLog) -> Iterator[Served]:
    served = Served(open_log(orders.path, "r"), functools.partial(fence_closed, orders.path))
    yield served
    served.log.close()


def following_of(served: Served) -> Following:
    said = {"name": "b", "rank": Rank()._asdict(), "position": 0, "unsealed": []}
    return Following(served, said)


def test_follower_that_sends_garbage_is_left(served: Served) -> None:
    reader = MagicMock()
    reader.read_chunk.side_effect = OSError("Invalid flatbuffers message.")
    run_to_its_end = following_of(served).run
    thread = threading.Thread(target=run_to_its_end, args=(reader, MagicMock(), lambda: True))
    thread.start()
    thread.join(LIMIT_S)
    is_left = not thread.is_alive()
    served.end()
    thread.join()
    assert is_left


def test_follower_too_many_gets_the_error(served: Served) -> None:
    for number in range(1024):
        served.acknowledged.add(str(number), Rank(), 0)
    reader = MagicMock()
    message = MagicMock(app_metadata=wire.acknowledgement(Rank(), 4096))
    reader.read_chunk.side_effect = [message, StopIteration]
    with pytest.raises(ReplicationError, match="1024 followers of other names"):
        following_of(served).run(reader, MagicMock(), lambda: True)
