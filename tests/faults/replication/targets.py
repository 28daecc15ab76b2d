"""What peers send, fed into the code that takes it: any bytes may raise `CommitLogError`, and
nothing else. Each target takes one input, so a random mutator and a fuzzer can both drive it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import math
import socket
import struct
from pathlib import Path
from typing import Any, Protocol

import commitlog
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import CommitLogError
from commitlog.log.locked_log import LockedLog
from commitlog.log.open_calls import open_log
from commitlog.network.remote import update as updates
from commitlog.network.remote import wire as remote_wire
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.server_source import ServerSource
from commitlog.network.remote.update import Update
from commitlog.network.replication import wire
from commitlog.network.replication.permits import Permit, Permits
from commitlog.network.replication.promise import Asked, Standing
from commitlog.network.replication.reading import Reading
from commitlog.network.replication.replica import Replica
from commitlog.network.replication.served import Served
from commitlog.network.replication.session import Sessions
from commitlog.network.replication.wire import Chunk
from commitlog.recovery.lineage import Rank
from commitlog.replication import serve
from commitlog.segment.identity import Identity
from commitlog.source.source_directory import SourceDirectory

SEGMENT = 64 << 10
PEER = "a peer"
_ANSWER_MOST = 1 << 24  # bytes
_HEAD = struct.Struct("<qqqq")


class Target(Protocol):
    """Takes inputs; `seeds` are sound ones."""

    seeds: list[bytes]

    def take(self, data: bytes) -> None:
        """Take an input; raise if it does harm."""

    def close(self) -> None:
        """Release what the target holds."""


def made_log(path: Path, records: int = 3000) -> str:
    """Create a log of some segments."""
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append_many([b"record %d" % number for number in range(records)])
    return str(path)


class _OneRequest:
    """A client that sends one request, takes a few messages, and is gone."""

    def __init__(self, request: bytes) -> None:
        self._requests = [request]
        self._left = 3
        self.trusted = False

    def receive(self, _head_limit: int, _body_limit: int = 0) -> tuple[bytes, memoryview]:
        if not self._requests:
            raise ConnectionResetError("gone")
        return self._requests.pop(), memoryview(b"")

    def send(self, head: bytes, body: bytes | memoryview = b"", _crc: int | None = None) -> None:
        assert len(head) < remote_wire.TEXT_LIMIT
        assert len(body) <= max(updates.UPDATE_BYTES, wire.CHUNK_BYTES)
        self._left -= 1
        if not self._left:
            raise BrokenPipeError("gone")

    def wait_at_most(self, limit_s: float) -> None:
        assert limit_s > 0

    def end(self) -> None: ...

    def cancel(self) -> None: ...


class Messages:
    """A channel takes bytes."""

    def __init__(self, _folder: Path) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        near, far = self._pair()
        with Channel(near) as channel, far:
            channel.send(b"a head")
            channel.send(b"", b"a body")
            channel.send(b"h" * 100, bytes(20_000))
            channel.end()
            self.seeds = [b"".join(iter(functools.partial(far.recv, 1 << 16), b""))]
        self.seeds.append(self.seeds[0][:60])

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        near = socket.create_connection(self._listener.getsockname())
        return near, self._listener.accept()[0]

    def take(self, data: bytes) -> None:
        near, far = self._pair()
        with Channel(near) as channel:
            with far:
                far.sendall(data)
            with contextlib.suppress(ConnectionError):
                while True:
                    head, body = channel.receive(1 << 10, 1 << 16)
                    assert data.find(head) >= 0 <= data.find(body)

    def close(self) -> None:
        self._listener.close()


class Questions:
    """A server takes what followers and readers ask for."""

    def __init__(self, folder: Path) -> None:
        self.log = open_log(made_log(folder / "log"), "r")
        self.served = Served(self.log, _promise)
        permits = Permits({"token": Permit()})
        self._sessions = Sessions({"log": self.served}, permits, grows=False)
        rank = {"number": 0, "id": "", "restart": 0}
        asked: list[dict[str, Any]] = [
            {"action": "describe"},
            {"action": "acknowledge", "name": "f", "rank": rank, "position": SEGMENT},
            {"action": "fence", "rank": {"number": 2, "id": "0" * 32}},
            {"action": "look"},
            *({"action": "find", "what": what, "value": SEGMENT + HEADER_SIZE}
              for what in ("flush", "since", "sequence_of", "position_of", "boundary")),
            *({"action": "tailer", "what": what, "name": "t", "position": 0, "start": 0,
               "lease": "0", "required": False, "max_lag": 1000, "durable_s": 1.5}
              for what in ("open", "save", "close", "list", "reset", "delete", "evict")),
            {"action": "read", "read": [[0, 4096], [SEGMENT, SEGMENT + 100]]},
            {"action": "watch", "watch": HEADER_SIZE},
            {"action": "follow", "name": "f", "position": SEGMENT + HEADER_SIZE, "rank": rank,
             "unsealed": [0]},
        ]  # fmt: skip
        self.seeds = [remote_wire.text({"log": "log", "token": "token", **each}) for each in asked]

    def take(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._sessions.run(_OneRequest(data))  # type: ignore[arg-type]

    def close(self) -> None:
        self.served.end()
        self.log.close()


def _promise(asked: Asked) -> tuple[Rank, Standing]:
    return asked.rank, Standing(asked.rank, 0)


class Answers:
    """A reader on another machine takes the answers of a server, and updates.

    The input is a message of JSON, or the numbers of an update and its bytes behind a NUL.
    """

    def __init__(self, folder: Path) -> None:
        self._path = made_log(folder / "log")
        self._server = serve(self._path, listen="127.0.0.1:0")
        self._directory: SourceDirectory | None = None
        self._taken = 0
        with open_log(self._path, "r") as log:
            look, end = Reading(log).look(), log.committed_position
            updates_read = list(Reading(log).read([[end - 512, end]]))
        self.seeds = [
            remote_wire.text(look),
            remote_wire.text({**look, "epochs": [{"number": 1, "start": end, "id": "0" * 32}]}),
            updates.text_of(CommitLogError("refused")).encode(),
            *(b"\0" + _HEAD.pack(each.position, each.first, each.committed, each.flushed)
              + bytes(each.content) for each in updates_read),
        ]  # fmt: skip

    def take(self, data: bytes) -> None:
        directory, source = self._opened()
        with contextlib.suppress(CommitLogError):
            if data[:1] == b"\0":
                numbers, content = data[1 : 1 + _HEAD.size], data[1 + _HEAD.size :]
                if len(numbers) == _HEAD.size:
                    position, first, committed, flushed = _HEAD.unpack(numbers)
                    sent = Update(position, first, committed, flushed)
                    if update := updates.update_of(
                        updates.head_of(sent), memoryview(content), PEER
                    ):
                        source.take(update)
            else:
                updates.error_of(data.decode(errors="replace"), PEER)
                source.adopt(remote_wire.content_of(data, PEER))
        assert len(directory.segment_numbers()) <= 1 << 18

    def _opened(self) -> tuple[SourceDirectory, ServerSource]:
        self._taken += 1
        if self._directory is None or self._taken % 1000 == 0:
            self._drop()
            self._source = ServerSource(self._server.url(), 10.0)
            self._directory = SourceDirectory(self._source, 1 << 24)
        return self._directory, self._source

    def _drop(self) -> None:
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def close(self) -> None:
        self._drop()
        self._server.close()


class Chunks:
    """A follower takes chunks. The input is where a chunk belongs, one byte for its kind, and its
    bytes.
    """

    def __init__(self, folder: Path) -> None:
        source = Path(made_log(folder / "log"))
        files = sorted(source.glob("*.seg")) or sorted(source.glob("0*"))
        self._pages = [file.read_bytes()[:HEADER_SIZE] for file in files[:2]]
        frames = files[0].read_bytes()[HEADER_SIZE:][: 64 * 32]
        with open_log(str(source), "r") as log:
            self._identity = Identity.parse(Reading(log).look()["identity"].encode(), PEER)
        self._folder, self._number = folder, 0
        self._replica: Replica | None = None
        self._begin()
        head = _HEAD.pack(0, HEADER_SIZE, HEADER_SIZE, 0)
        self.seeds = [
            head + b"F" + frames,
            head + b"F" + frames[:64],
            _HEAD.pack(1, HEADER_SIZE, SEGMENT, 0) + b"H" + self._pages[1],
            _HEAD.pack(0, SEGMENT, SEGMENT, 0) + b"H" + self._pages[0],
        ]

    def take(self, data: bytes) -> None:
        replica = self._replica
        assert replica is not None
        if len(data) <= _HEAD.size:
            return
        number, offset, flushed, _ = _HEAD.unpack_from(data)
        kind, content = data[_HEAD.size : _HEAD.size + 1], data[_HEAD.size + 1 :]
        header, frames = (content, b"") if kind == b"H" else (b"", content)
        before = replica.position
        with contextlib.suppress(CommitLogError):
            head, body, _ = Chunk(number, offset, flushed, None, header, frames).message()
            chunk = wire.chunk_of(head, memoryview(body), PEER)
            assert chunk is not None
            replica.write(chunk)
            replica.sync()
        # Only whole sound frames count.
        assert before <= replica.position <= before + len(frames) + HEADER_SIZE
        if replica.position != before:
            self._begin()

    def _begin(self) -> None:
        """Begin with an empty copy."""
        self.close()
        self._number += 1
        path = str(self._folder / f"copy{self._number}")
        LockedLog.create(path, self._identity, commitlog.recovery.lineage.Lineage())
        LockedLog.begin(path, self._identity, 0, self._pages[0])
        self._replica = Replica(path)

    def close(self) -> None:
        if self._replica is not None:
            self._replica.close()
            self._replica = None


TARGETS: dict[str, type[Messages | Questions | Answers | Chunks]] = {
    "messages": Messages,
    "questions": Questions,
    "answers": Answers,
    "chunks": Chunks,
}


def mutated(data: bytes, random: Any) -> bytes:
    """Return an input that differs in some places from a sound one."""
    if data[:1] == b"{" and random.random() < 0.8:
        return _other_json(data, random)
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(found) + 1)
        kind = random.randrange(4)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            found[at:at] = random.choice(_NUMBERS_BYTES)
        elif kind == 2:
            del found[at : at + random.randint(1, 16)]
        else:
            found[at : at + 8] = random.choice(_NUMBERS_BYTES)
    return bytes(found)


_NUMBERS_BYTES = [
    struct.pack("<q", number)
    for number in (0, 1, -1, 4096, SEGMENT, 1 << 31, 1 << 40, (1 << 62), (1 << 63) - 1, -(1 << 63))
]
_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.5, 1e308, math.nan, math.inf, "", "x", "\0", "\ud800"),
    *("x" * 5000, [], {}, [[]]),
    *(4096, SEGMENT, 1 << 31, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, 1 << 200, -(1 << 63)),
    *([0, 1], [1, 0], [[0, 1]], [[1, 0]], [[0, 1 << 62]], {"number": 1, "id": "0" * 32}, ["x"]),
]


def _other_json(data: bytes, random: Any) -> bytes:
    content = json.loads(data)
    for _ in range(random.randint(1, 3)):
        _change(content, random)
    return json.dumps(content).encode()


def _change(content: Any, random: Any) -> None:
    """Change, add or take away one value, at any depth."""
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    if not keys:
        return
    key = random.choice(keys)
    if isinstance(content[key], dict | list) and random.random() < 0.7:
        _change(content[key], random)
    elif random.random() < 0.15:
        del content[key]
    else:
        content[key] = copy.deepcopy(random.choice(_VALUES))
