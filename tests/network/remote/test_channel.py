"""A channel brings each message whole and in order, or ends with an error."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from commitlog.network.remote import sockets
from commitlog.network.remote.byte_stream import TlsStream
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.wire import client_context, server_context
from tests.certificates import certificate
from tests.forks import forked_child

LIMIT_S = 10.0
MOST = 1 << 22
Pair = tuple[Channel, Channel]


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


@pytest.fixture(params=["plain", "tls"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    near, far = connected()
    if request.param == "plain":
        client, server = Channel(near), Channel(far)
    else:
        files = certificate(tmp_path, "127.0.0.1")
        with ThreadPoolExecutor(1) as threads:
            shaken = threads.submit(Channel, far, server_context(*files))
            client = Channel(near, client_context(files[0]), "127.0.0.1")
            server = shaken.result()
    with client, server:
        yield client, server


def test_message_with_the_end_of_the_handshake_is_received(tmp_path: Path) -> None:
    near, far = connected()
    files = certificate(tmp_path, "127.0.0.1")
    sent = threading.Event()

    class LateStream(TlsStream):
        """Takes bytes when the client has sent a message, after its first ones."""

        begun = False

        def _take(self) -> int:
            if self.begun and threading.current_thread() is not threading.main_thread():
                sent.wait(LIMIT_S)
            self.begun = True
            return super()._take()

    def accept() -> Channel:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("commitlog.network.remote.channel.TlsStream", LateStream)
            return Channel(far, server_context(*files))

    with ThreadPoolExecutor(1) as threads:
        shaken = threads.submit(accept)
        with Channel(near, client_context(files[0]), "127.0.0.1") as client:
            client.send(b"first")
            sent.set()
            with shaken.result() as server:
                assert server.receive(16)[0] == b"first"


def bodies(numbers: random.Random) -> list[bytes]:
    edges = (0, 1, 16 << 10, (16 << 10) + 1, 64 << 10, 256 << 10, (256 << 10) + 1, 3 << 20)
    sizes = [*edges, *(numbers.randrange(1 << 17) for _ in range(50))]
    numbers.shuffle(sizes)
    return [numbers.randbytes(size) for size in sizes]


def test_both_directions_bring_all_messages_at_once(pair: Pair) -> None:
    seed = time.time_ns()
    print("seed", seed)
    numbers = random.Random(seed)
    sent = [bodies(numbers), bodies(numbers)]

    def send(channel: Channel, contents: list[bytes]) -> None:
        for number, content in enumerate(contents):
            channel.send(b"%d" % number, memoryview(content))

    def receive(channel: Channel, contents: list[bytes]) -> None:
        for number, content in enumerate(contents):
            head, body = channel.receive(16, MOST)
            assert (head, body) == (b"%d" % number, content)

    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(act, pair[end], sent[side])
            for side in (0, 1)
            for act, end in ((send, side), (receive, 1 - side))
        ]
        for each in done:
            each.result(LIMIT_S)


def captured(*messages: tuple[bytes, bytes]) -> list[bytes]:
    """Return the bytes of messages, as a channel sends them."""
    near, far = connected()
    with Channel(near) as channel, far:
        found = []
        for message in messages:
            channel.send(*message)
            size = 20 + len(message[0]) + len(message[1])
            found.append(far.recv(size, socket.MSG_WAITALL))
        return found


def received(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the messages that a channel takes from some bytes, until an error ends it."""
    near, far = connected()
    with Channel(near) as channel, far:
        far.sendall(content)
        far.shutdown(socket.SHUT_WR)
        found = []
        while True:
            try:
                head, body = channel.receive(1 << 10, 1 << 10)
            except ConnectionError:
                return found
            found.append((head, bytes(body)))


def test_message_with_a_wrong_bit_is_refused() -> None:
    (message,) = captured((b"a head", b"a body"))
    assert received(message) == [(b"a head", b"a body")]
    for bit in range(8 * len(message)):
        wrong = bytearray(message)
        wrong[bit // 8] ^= 1 << bit % 8
        assert received(bytes(wrong)) == []


@pytest.mark.parametrize("order", [(1,), (0, 2), (0, 0), (0, 1, 1), (1, 0)])
def test_message_that_is_lost_or_repeated_ends_the_channel(order: tuple[int, ...]) -> None:
    messages = captured((b"0", b""), (b"1", b""), (b"2", b""))
    found = received(b"".join(messages[number] for number in order))
    assert len(found) < len(order)
    assert found == [(b"%d" % number, b"") for number in range(len(found))]


@pytest.mark.parametrize(("head", "body"), [(b"h" * 1025, b""), (b"", b"b" * 1025)])
def test_message_beyond_a_limit_is_refused(head: bytes, body: bytes) -> None:
    assert received(captured((head, body))[0]) == []


def test_silent_peer_ends_a_wait(pair: Pair) -> None:
    client, _ = pair
    client.wait_at_most(0.05)
    with pytest.raises(TimeoutError, match=r"did nothing for 0\.05 s"):
        client.receive(16)


def test_peer_that_does_not_read_ends_a_wait(pair: Pair) -> None:
    client, _ = pair
    client.wait_at_most(0.05)
    with pytest.raises(OSError, match="did nothing|timed out"):  # noqa: PT012
        while True:
            client.send(b"", bytes(1 << 20))


def trickle(content: bytes, peer: socket.socket) -> None:
    """Send bytes one by one, slowly, until the peer is gone."""
    with contextlib.suppress(OSError):
        for number in range(len(content)):
            peer.sendall(content[number : number + 1])
            time.sleep(0.02)


@pytest.mark.parametrize("begin", [0, 1, 25], ids=["prefix", "rest of it", "head"])
def test_message_in_single_bytes_ends_a_wait(begin: int) -> None:
    (message,) = captured((b"h" * 1000, b""))
    near, far = connected()
    with ThreadPoolExecutor(1) as threads, Channel(near, limit_s=0.2) as channel, far:
        far.sendall(message[:begin])
        threads.submit(trickle, message[begin:], far)
        with pytest.raises(TimeoutError, match="too slow"):
            channel.receive(1000)
        channel.close()


@pytest.mark.parametrize("side", ["client", "server"])
def test_handshake_in_single_bytes_ends_a_wait(side: str, tmp_path: Path) -> None:
    files = certificate(tmp_path, "127.0.0.1")
    near, far = connected()
    hello = b"\x16\x03\x03\x20\x00" + bytes(1000)  # a record whose end does not come
    with ThreadPoolExecutor(1) as threads, near, far:
        threads.submit(trickle, hello, far)
        is_client = side == "client"
        context = client_context(files[0]) if is_client else server_context(*files)
        with pytest.raises(TimeoutError, match="too slow"):
            Channel(near, context, "127.0.0.1" if is_client else None, limit_s=0.2)
        near.close()


def test_peer_that_reads_slowly_ends_a_send(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = pair
    monkeypatch.setattr("commitlog.network.remote.byte_stream._SLOWEST", 1 << 30)
    client.wait_at_most(0.2)

    def read() -> None:
        with contextlib.suppress(OSError):
            while server._socket.recv(4 << 10):
                time.sleep(0.02)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(read)
        with pytest.raises(TimeoutError, match="too slow|did nothing|timed out"):  # noqa: PT012
            while True:
                client.send(b"", bytes(16 << 20))
        client.cancel()


def test_longest_limit_is_accepted(pair: Pair) -> None:
    client, server = pair
    client.wait_at_most(366 * 86400)
    server.send(b"a head")
    assert client.receive(16)[0] == b"a head"


def test_socket_is_not_closed_while_a_thread_ends_it() -> None:
    """Between both, its descriptor could become another file."""
    near, far = connected()
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(socket.socket):
        def shutdown(self, how: int) -> None:
            begun.set()
            goes_on.wait(LIMIT_S)
            assert self.fileno() >= 0
            super().shutdown(how)

    slow = Slow(fileno=near.detach())
    with ThreadPoolExecutor(2) as threads, far:
        ending = threads.submit(sockets.end, slow)
        assert begun.wait(LIMIT_S)
        closing = threads.submit(sockets.close, slow)
        goes_on.set()
        ending.result(LIMIT_S)
        closing.result(LIMIT_S)
    assert slow.fileno() == -1


@pytest.mark.parametrize("act", ["receive", "send"])
def test_cancel_ends_a_thread_that_waits(pair: Pair, act: str) -> None:
    client, _ = pair

    def wait() -> None:
        while True:
            if act == "receive":
                client.receive(16)
            else:
                client.send(b"", bytes(1 << 20))

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait)
        time.sleep(0.05)  # that it may wait; without it, the test passes as well
        client.cancel()
        with pytest.raises(OSError, match=r".*"):
            waiting.result(LIMIT_S)


def test_channel_is_unused_until_something_comes(
    pair: Pair, until: Callable[[Callable[[], bool]], None]
) -> None:
    client, server = pair
    server.send(b"first")
    client.receive(16)
    assert client.is_unused
    server.send(b"more")
    until(lambda: not client.is_unused)
    client.receive(16)
    assert client.is_unused
    server.end()
    until(lambda: not client.is_unused)


def test_forked_child_does_not_hold_the_connection() -> None:
    near, far = connected()
    for each in (near, far):
        sockets.close_in_child(each)
    with Channel(near), Channel(far) as server, forked_child():
        near.close()  # without the shutdown of `Channel.close`, which the child could not hide
        with pytest.raises(ConnectionError, match="closed the connection"):
            server.receive(16)


def test_threads_that_send_leave_the_receiver_alone(pair: Pair) -> None:
    """Each direction has a thread of its own; a third one may cancel."""
    client, server = pair
    taken = threading.Event()

    def receive() -> None:
        assert client.receive(16)[0] == b"late"
        taken.set()

    thread = threading.Thread(target=receive)
    thread.start()
    for number in range(100):
        client.send(b"%d" % number)
        assert server.receive(16)[0] == b"%d" % number
    server.send(b"late")
    thread.join(LIMIT_S)
    assert taken.is_set()
