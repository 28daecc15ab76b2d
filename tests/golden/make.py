"""Make golden logs: `python tests/golden/make.py NAME`.

The script fills a log of each kind with the commitlog that the interpreter imports, and writes the
logs to `NAME.tar.xz` beside it and what they hold to `NAME.json`. Golden logs are made once, by the
code whose format they keep, and never again; `test_golden.py` reads them with today's code.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import struct
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import commitlog
from commitlog import Retention, RollCycle, Store, TransientStorePool, topics
from commitlog.keep import archive_segments
from commitlog.replication import Replication, follow, promote, serve

HERE = Path(__file__).parent
SEGMENT = 64 << 10
LIMIT_S = 60.0
_KEEP_ALL = Retention(max_bytes="1TiB")


# --- what a log holds -----------------------------------------------------------------------------


def contents(path: str | Path) -> dict[str, Any]:
    """Return what every reader of a log must find: its ends, and a digest of its records."""
    with commitlog.open(path, mode="r") as log:
        records = list(log.tailer(start="first"))
        return {
            "first": log.first_position,
            "end": log.tail_position,
            "records": len(records),
            "sha256": digest_of(records),
        }


def digest_of(records: Iterable[commitlog.Record]) -> str:
    """Return a digest of all that records have."""
    digest = hashlib.sha256()
    for record in records:
        fields = (record.position, record.sequence, record.timestamp_ns, record.type)
        digest.update(struct.pack("<QQqI", *fields))
        key = b"" if record.key is None else b"\1" + record.key
        for part in (key, record.value):
            digest.update(struct.pack("<Q", len(part)) + part)
    return digest.hexdigest()


def values(count: int) -> Iterator[tuple[bytes, bytes | None, int]]:
    """Yield value, key and type of records of many lengths."""
    for number in range(count):
        value = b"%d " % number * (1 + number * 7 % 90)
        yield value, (b"key %d" % (number % 5) if number % 2 else None), number % 3


def append_to(log: commitlog.CommitLog, count: int = 400) -> None:
    for value, key, kind in values(count):
        log.append(value, key=key, type=kind)


# --- the logs ---------------------------------------------------------------------------------


def make_plain(folder: Path) -> None:
    """Make a log of several segments, a large record, an empty one, and named tailers."""
    with commitlog.open(folder / "plain", segment_size=SEGMENT) as log:
        append_to(log)
        log.append(b"")
        log.append(bytes(range(256)) * 31, key=b"")
        with log.tailer("billing") as tailer:
            for _ in range(100):
                tailer.read()


def make_pooled(folder: Path) -> None:
    with (
        TransientStorePool(buffers=3, buffer_size=SEGMENT) as pool,
        commitlog.open(folder / "pooled", pool=pool) as log,
    ):
        append_to(log)


def make_sync(folder: Path) -> None:
    """Make a log whose producers number their records."""
    with commitlog.open(folder / "sync", segment_size=SEGMENT, flush="sync") as log:
        for number in range(60):
            for name in ("till", "café"):
                log.append(b"%d" % number * 300, producer=name, producer_sequence=number)


def make_cycles(folder: Path) -> None:
    cycle = RollCycle("DAILY", time_zone="Europe/Berlin", epoch="6h")
    with commitlog.open(folder / "cycles", segment_size=SEGMENT, roll_cycle=cycle) as log:
        for more in range(3):
            append_to(log, 20 + more)
            log.roll()


def make_killed(folder: Path) -> None:
    """Make a log whose only writer was killed."""
    child = os.fork()
    if child == 0:
        log = commitlog.open(folder / "killed", segment_size=SEGMENT)
        append_to(log, 200)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def make_topics(folder: Path) -> None:
    from messages import PLAIN_TOPICS, Shop

    with commitlog.open(folder / "topics", segment_size=SEGMENT) as log:
        for each in PLAIN_TOPICS:
            _append_messages(log, each)
        shop = commitlog.method_writer(log, Shop)
        for number in range(5):
            shop.sold(f"lamp {number}", number)


def make_sealed(folder: Path) -> None:
    """Make a log with sealed topics, and one whose topic binds messages to their positions."""
    from messages import BOUND_TOPICS, KEYS, SEALED_TOPICS

    keys = topics.KeyRing.of_text(KEYS)
    for name, found in (("sealed", SEALED_TOPICS), ("bound", BOUND_TOPICS)):
        with commitlog.open(folder / name, segment_size=SEGMENT) as log:
            for each in found:
                _append_messages(log, each, keys=keys)


def _append_messages(log: commitlog.CommitLog, each: Any, **options: Any) -> None:
    options |= dict(each.options)
    with commitlog.topic(log, each.kind, name=each.name, codec=each.codec, **options) as topic:
        for number, message in enumerate(each.messages()):
            topic.append(message, key=b"%d" % (number % 3))


def make_archive(folder: Path) -> None:
    """Make an archive, and the log that its segments were copied from."""
    with commitlog.open(folder / "archived", segment_size=SEGMENT, retention=_KEEP_ALL) as log:
        append_to(log)
        log.roll()
        log.flush()
    archive_segments(folder / "archived", Store(folder / "archive"), keep=True)


def make_store(folder: Path) -> None:
    """Make a log that is stored, and its store."""
    store = Store(folder / "store", every="100ms")
    with commitlog.open(folder / "stored", segment_size=SEGMENT, store=store) as log:
        append_to(log)


def make_copies(folder: Path) -> None:
    """Make a primary that was served, its copy, and a copy that was promoted."""
    with (
        commitlog.open(folder / "primary", segment_size=SEGMENT) as log,
        serve(folder / "primary", listen="127.0.0.1:0") as server,
        follow(server.url("primary"), folder / "copy") as copy,
        follow(server.url("primary"), folder / "promoted") as promoted,
    ):
        append_to(log)
        log.flush()
        for each in (copy, promoted):
            assert each.wait(log.flushed_position, timeout=LIMIT_S)
    promote(folder / "promoted")
    with commitlog.open(folder / "promoted") as log:
        append_to(log, 10)


def make_replicated(folder: Path) -> None:
    """Make a primary whose appends wait for its copy, and that copy."""
    rule = Replication(require=1)
    with (
        commitlog.open(
            folder / "replicated", segment_size=SEGMENT, flush="sync", replicate=rule
        ) as log,
        follow(rule.server.url("replicated"), folder / "replica", name="replica"),
    ):
        for value, key, kind in values(50):
            log.append(value, key=key, type=kind)


MAKERS: tuple[Callable[[Path], None], ...] = (
    make_plain,
    make_pooled,
    make_sync,
    make_cycles,
    make_killed,
    make_topics,
    make_sealed,
    make_archive,
    make_store,
    make_copies,
    make_replicated,
)


# --- the files --------------------------------------------------------------------------------


def pack(folder: Path, target: Path) -> None:
    """Write a folder as a tar file in which only the contents and names of files count."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime = entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    with tarfile.open(target, "w:xz", preset=9, format=tarfile.GNU_FORMAT) as file:
        for path in sorted(folder.rglob("*")):
            file.add(path, str(path.relative_to(folder)), recursive=False, filter=plain)


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for make in MAKERS:
            make(folder)
        pack(folder, HERE / f"{name}.tar.xz")
        found = {path.name: contents(path) for path in sorted(folder.iterdir())}
    (HERE / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
