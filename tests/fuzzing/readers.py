"""The Python readers of bytes that others wrote: files of a log, objects of a store, schemas, keys,
messages, segments. Any bytes give a value or a `CommitLogError`, in a time and a memory that their
number bounds.

An input is one byte for the target and then what the target takes. Most of the CRCs are computed
anew, so that what is behind them is reached.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import shutil
import struct
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import commitlog
from commitlog import topics
from commitlog._kernel.segments import HEADER_SIZE, crc32c
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint
from commitlog.network.replication.followed_mark import FollowedMark
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.join_note import JoinNote, Manifest
from commitlog.repair.verification import verify
from commitlog.retention import stored_mark
from commitlog.segment import (
    checked_json,
    cursors_file,
    identity,
    index_file,
    lock_file,
    producers_file,
)
from commitlog.segment.directory import LogDirectory
from commitlog.segment.notes import Notes
from commitlog.segment.seal_table import read_seal
from commitlog.stores import own_sessions, store_session
from commitlog.stores.archived import read_header, read_identity, read_pieces
from commitlog.stores.contents import read_contents
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.tail_object import TailObject, pack, read_part
from commitlog.stores.target import target_of
from commitlog.tail.tailer_state import lowest_required, read_state
from commitlog.topics.data_key import DataKey
from commitlog.topics.decoding import MessageDecoder, as_json
from commitlog.topics.schema import Schema
from tests.faults.replication import targets as peers
from tests.topics import test_hostile_values as codecs

SEGMENT = 64 << 10
TAKE_MOST_S = 2.0  # of processor time, and as much again for each 10 KB of input
TAKE_MOST_BYTES = 64 << 20  # and a thousand times the input
RING = topics.KeyRing.of_text("k:" + "A" * 43 + "=")


def _log(path: Path) -> str:
    """Create a log with sealed segments, producers, tailers, an index and keys."""
    tuning = commitlog.Tuning(index_spacing=16)
    with commitlog.open(path, segment_size=SEGMENT, tuning=tuning) as log:
        for number in range(40):
            log.append(b"value %d" % number, key=b"key %d" % (number % 3), type=number % 2)
            log.append(b"counted", producer="p", producer_sequence=number)
        with log.tailer("t", required=True) as tailer:
            next(iter(tailer))
        log.roll()
        log.append(b"last", sync=True)
        log.roll()
    return str(path)


class SmallFiles:
    """JSON files with a CRC in a log's directory, each taken by its reader."""

    def __init__(self, folder: Path) -> None:
        self._path = _log(folder / "log")
        known = identity.read_path(self._path)
        assert known is not None
        self._directory = LogDirectory(self._path, known)
        self._readers: list[tuple[str, Callable[[LogDirectory], object]]] = [
            ("epoch", lambda directory: Epochs(directory).read_placed()),
            ("followed", lambda directory: FollowedMark(Notes(directory))),
            ("stored", stored_mark.read),
            ("sessions", lambda directory: own_sessions.read(Notes(directory))),
            ("producers", lambda directory: producers_file.extend(directory, 1)),
            ("joining", JoinNote.read),
            ("joined", Manifest.read),
        ]
        epoch = {"number": 1, "start": 4096, "id": "0" * 32}
        member = {"id": "1" * 32, "name": "n"}
        self.seeds = [
            b"\0" + json.dumps(
                {"follows": "tcp://a:1", "epochs": [epoch, {**epoch, "restart": 1}],
                 "fence": {"number": 2, "id": "2" * 32}, "earlier": [], "require": 1,
                 "member": "1" * 32, "members": [member], "copies": 1,
                 "place": {"file": 1, "directory": 2, "born": None}}).encode(),
            b'\1{"durable": 4096, "flushed": 8192}',
            b"\2" + json.dumps({"target": "s3://a", "position": SEGMENT, "end": SEGMENT,
                                "seal": [1, 2, 3, 4], "error": None}).encode(),
            b"\3" + json.dumps({"stores": [["a", "b", "c"]], "restored": ""}).encode(),
            b"\4" + json.dumps({"below": 1, "seal": None,
                                "producers": {"0" * 16: [-1, [[0, 4128]]]}}).encode(),
            b"\5" + json.dumps({"start": 4096, "end": 3 * SEGMENT, "gate": [1, 4096],
                                "moves": [{"source": "x/0.seg", "number": 2, "segment_id": 5}],
                                "query": "q", "batch": 1}).encode(),
            b'\6{"batches": {"q": [1, 5]}}',
        ]  # fmt: skip

    def take(self, data: bytes) -> None:
        name, read = self._readers[data[0] % len(self._readers)]
        (Path(self._path) / name).write_bytes(self._repaired(data[1:]))
        try:
            read(self._directory)
        finally:
            (Path(self._path) / name).unlink(missing_ok=True)

    def _repaired(self, text: bytes) -> bytes:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(content, dict):
            return text
        uuid = self._directory.log_uuid.hex()
        content = {"format": checked_json.FORMAT, "uuid": uuid, **content}
        plain = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        return json.dumps({**content, "crc32c": crc32c(plain)}).encode()

    def close(self) -> None:
        self._directory.close()


class BinaryFiles:
    """The other files of a log's directory: index, checkpoint, tailer, `lock`, `cursors`."""

    NAMES = ("index", "checkpoint", "tailer", "lock", "cursors", "log.json")

    def __init__(self, folder: Path) -> None:
        self._path = Path(_log(folder / "log"))
        known = identity.read_path(str(self._path))
        assert known is not None
        self._directory = LogDirectory(str(self._path), known)
        seal = read_seal(self._directory, 0)
        assert seal is not None
        self._seal = seal
        self._files = [
            next(self._path.glob("*.idx"), self._path / f"{0:020}.idx"),
            self._path / "checkpoint",
            self._path / "tailers" / "t",
            self._path / "lock",
            self._path / "cursors",
            self._path / "log.json",
        ]
        self._kept = [file.read_bytes() if file.exists() else b"" for file in self._files]
        self.seeds = [bytes([at]) + kept[:4096] for at, kept in enumerate(self._kept)]

    def take(self, data: bytes) -> None:
        kind = data[0] % len(self._files)
        content = self._repaired(data[1:]) if kind == 0 else data[1:]
        file, kept = self._files[kind], self._kept[kind]
        file.write_bytes(content + kept[len(content) :] if kind == 4 else content)
        try:
            self._read(kind)
        finally:
            file.write_bytes(kept)

    def _read(self, kind: int) -> None:
        directory = self._directory
        if kind == 0:
            index_file.read(directory, 0, self._seal)
        elif kind == 1:
            checkpoint.read(directory.fd, directory.log_uuid)
        elif kind == 2:
            read_state(directory, "t", end=SEGMENT)
            lowest_required(directory)
        elif kind == 3:
            with contextlib.closing(lock_file.LockFile(directory.fd)) as file:
                file.read().describe()
        elif kind == 4:
            found = cursors_file.find(directory.fd, directory.identity)
            if found is not None:
                cursors_file.writers(directory.fd, found.cells)
        else:
            identity.read(directory.fd, directory.path)

    def _repaired(self, content: bytes) -> bytes:
        if len(content) < 64:
            return content
        entries = content[64:]
        head = content[:56] + crc32c(entries).to_bytes(4, "little")
        return head + crc32c(head).to_bytes(4, "little") + entries

    def close(self) -> None:
        self._directory.close()


class StoreObjects:
    """Objects of a store: names of a listing, sessions, parts, whole segments, identities."""

    def __init__(self, folder: Path) -> None:
        path = _log(folder / "log")
        self._store = folder / "store"
        self._store.mkdir()
        shutil.copy(Path(path) / "log.json", self._store)
        known = identity.read_path(path)
        assert known is not None
        self._identity, self._target = known, target_of(self._store, None)
        page = (Path(path) / f"{0:020}.seg").read_bytes()
        session = {"number": 1, "epoch": 0, "start": 0, "id": "0" * 32, "promotion": False,
                   "epoch_start": 0}  # fmt: skip
        self.seeds = [
            b"\0" + b"0000000000-" + b"0" * 20 + b"-" + b"%020d" % SEGMENT
            + b"-0000000001-00000000-00000000.tail.zst\n" + b"%020d-%020d.gap\n" % (0, SEGMENT)
            + b"0000000001.epoch",
            b"\1" + json.dumps(session).encode(),
            b"\2" + page[: HEADER_SIZE + 200],
            b"\3" + pack(page[: HEADER_SIZE + 200], 1),
            b"\4" + pack(page, 1),
            b"\5" + (Path(path) / "log.json").read_bytes(),
        ]  # fmt: skip

    def take(self, data: bytes) -> None:
        kind, content, target = data[0] % 6, data[1:], self._target
        if kind == 0:
            self._list(content)
            return
        size = max(len(content), 1) if kind == 2 else HEADER_SIZE + 200
        part = TailObject(0, 0, min(size, SEGMENT), 1, (0, 0))
        name = ["", "0000000001.epoch", part.name, part.name, f"{0:020}.seg.zst", "log.json"][kind]
        kept = (self._store / name).read_bytes() if kind == 5 else None
        (self._store / name).write_bytes(pack(content, 1) if kind == 2 else content)
        try:
            if kind == 1:
                store_session.newest_session(target)
            elif kind in (2, 3):
                read_part(target, part, self._identity)
            elif kind == 4:
                with contextlib.suppress(CommitLogError):
                    read_header(target, 0, self._identity)
                list(read_pieces(target, 0, self._identity))
            else:
                read_identity(target)
        finally:
            if kept is None:
                (self._store / name).unlink()
            else:
                (self._store / name).write_bytes(kept)

    def _list(self, content: bytes) -> None:
        names = [
            name
            for name in content.decode(errors="replace").split("\n")[:16]
            if name and "/" not in name and "\0" not in name and len(name.encode()) < 200
            and name not in (".", "..", "log.json")
        ]  # fmt: skip
        for name in names:
            TailObject.named(name, SEGMENT)
            StoreGap.named(name)
            (self._store / name).write_bytes(b"")
        try:
            read_contents(self._target, SEGMENT)
        finally:
            for name in set(names):
                (self._store / name).unlink()

    def close(self) -> None: ...


class Schemas:
    """Records of a topic that describe others: schemas, data keys; and the text of a key ring."""

    def __init__(self, folder: Path) -> None:
        self._log = commitlog.open(folder / "log", segment_size=SEGMENT)
        self.seeds = [b"\2k:" + b"A" * 43 + b"="]
        with commitlog.topic(self._log, codecs.Item, name="sealed", keys=RING) as topic:
            topic.append(codecs.ITEM)
        for record in self._log.tailer():
            if record.value[:1] == b"{":
                kind = 1 if (record.key or b"").startswith(b"datakey:") else 0
                self.seeds.append(bytes([kind]) + record.value)

    def take(self, data: bytes) -> None:
        kind, value = data[0] % 3, data[1:]
        if kind == 0:
            schema = Schema.of_value(value)
            str(schema)
        elif kind == 1:
            with contextlib.suppress(ValueError):  # its callers name the record
                DataKey.of_value(value, RING, self._log, 7)
        else:
            topics.KeyRing.of_text(value.decode(errors="replace"))

    def close(self) -> None:
        self._log.close()


class Values:
    """Values of messages, in each codec, compressed and sealed."""

    def __init__(self, folder: Path) -> None:
        self._log = commitlog.open(folder / "log")
        self._decoder = MessageDecoder(self._log, keys=RING)
        self._records: list[Any] = []
        self.seeds = []
        cases = [*codecs.CASES.values(), (codecs.Item, {"keys": RING}, lambda: codecs.ITEM)]
        for number, (kind, options, make) in enumerate(cases):
            start = self._log.tail_position
            with commitlog.topic(self._log, kind, name=f"t{number}", **options) as topic:
                topic.append(make())
            *_, last = self._log.tailer(start=start)
            self._records.append(last)
            self.seeds.append(bytes([number]) + last.value)

    def take(self, data: bytes) -> None:
        record = self._records[data[0] % len(self._records)]
        found = self._decoder.decode(record.type, data[1:], record.position, record.key)
        if found is not None:
            as_json(found.message)

    def close(self) -> None:
        self._log.close()


class Segments:
    """A whole log whose first segment is the input, opened and read in every way."""

    def __init__(self, folder: Path) -> None:
        self._path = Path(_log(folder / "log"))
        for name in ("cursors", "checkpoint"):
            (self._path / name).unlink()
        self._file = self._path / f"{0:020}.seg"
        self._content = self._file.read_bytes()
        self._id = int.from_bytes(self._content[32:40], "little")
        self.seeds = [self._content[at : at + 1024] for at in (HEADER_SIZE, HEADER_SIZE + 2048)]
        self.seeds.append(self._content[: HEADER_SIZE + 64])

    def take(self, data: bytes) -> None:
        at = 0 if data[:8] == self._content[:8] else HEADER_SIZE
        data = data if at == 0 else self._repaired(data)
        with self._file.open("r+b") as file:
            file.write(self._content[:at] + data[:SEGMENT])
            file.write(self._content[at + len(data) : at + len(data) + 64])
        try:
            self._read()
        finally:
            self._file.write_bytes(self._content)

    def _repaired(self, data: bytes) -> bytes:
        """Compute the CRC of each frame up to one that has no usable length; keep one in eight."""
        found, at = bytearray(data), 0
        while at + 8 <= len(found):
            (word,) = struct.unpack_from("<I", found, at)
            length = word & 0x0FFFFFFF
            if not 8 <= length <= len(found) - at:
                break
            if found[at + 4] % 8:
                rest = b"" if word & 0x20000000 else found[at + 8 : at + length]
                head = struct.pack("<QQI", self._id, HEADER_SIZE + at, word)
                struct.pack_into("<I", found, at + 4, crc32c(head + rest))
            at += -(-length // 8) * 8
        return bytes(found)

    def _read(self) -> None:
        verify(self._path)
        with commitlog.open(self._path, "r") as log:
            with log.tailer(on_damage="skip") as tailer:
                positions = [record.position for record in tailer]
            assert positions == sorted(set(positions))
            with log.tailer(on_damage="skip") as tailer:
                batched = []
                while batch := tailer.read_batch(100):
                    batched += list(batch.positions)
            assert batched == positions
            log.count()

    def close(self) -> None: ...


TARGETS: dict[str, Callable[[Path], Any]] = {
    "small_files": SmallFiles,
    "binary_files": BinaryFiles,
    "store_objects": StoreObjects,
    "schemas": Schemas,
    "values": Values,
    "segments": Segments,
    **peers.TARGETS,
}


class Readers:
    """All targets, of which the first byte of an input chooses one."""

    def __init__(self, folder: Path, names: tuple[str, ...] = tuple(TARGETS)) -> None:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        self._names = tuple(TARGETS)
        self._made = {}
        self.taken = dict.fromkeys(names, 0)
        self.refused = dict.fromkeys(names, 0)
        self.seeds: list[bytes] = []
        for name in names:
            (folder / name).mkdir(parents=True)
            self._made[name] = target = TARGETS[name](folder / name)
            head = bytes([self._names.index(name)])
            self.seeds += [head + seed for seed in target.seeds]

    def take(self, data: bytes) -> None:
        """Take an input; raise if it does harm."""
        name = self._names[data[0] % len(self._names)] if len(data) > 1 else ""
        if name not in self._made:
            return
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began_s = time.process_time()
        self.taken[name] += 1
        try:
            self._made[name].take(data[1:])
        except CommitLogError:
            self.refused[name] += 1
        taken_s = time.process_time() - began_s
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
        assert taken_s <= TAKE_MOST_S * (1 + len(data) / 10_000), f"{taken_s:.1f} s for an input"
        assert grown <= TAKE_MOST_BYTES + 1000 * len(data), f"{grown} bytes for an input"

    def mutated(self, data: bytes, draw: Any) -> bytes:
        """Return an input that differs from another one, for the same target."""
        skipped = 1 if self._names[data[0] % len(self._names)] in peers.TARGETS else 2
        return data[:skipped] + peers.mutated(data[skipped:], draw)

    def close(self) -> None:
        for target in self._made.values():
            target.close()
        logging.disable(logging.NOTSET)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
