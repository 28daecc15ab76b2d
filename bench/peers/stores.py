"""Stores for Python programs, in four roles: ``python -m bench.peers.stores ROLE DIRECTORY
which=lmdb|sqlite|rocksdict|file KEY=VALUE...``, with `batch` records a transaction.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable
from functools import partial
from itertools import repeat
from typing import Any

from bench.peers import loops
from bench.peers.loops import BATCH, Settings


def counted(values: Iterable[object]) -> int:
    count = 0
    for _ in values:
        count += 1
    return count


class Lmdb:
    def __init__(self, path: str, sync: bool) -> None:
        import lmdb  # type: ignore[import-not-found]

        self.env = lmdb.open(
            f"{path}/lmdb", map_size=16 << 30, sync=sync, metasync=sync, writemap=not sync
        )
        self.next = 0

    def append(self, values: list[bytes]) -> None:
        with self.env.begin(write=True) as transaction:
            put, at = transaction.put, self.next
            for value in values:
                put(at.to_bytes(8, "big"), value, append=True)
                at += 1
            self.next = at

    def drain(self) -> None:
        self.env.sync(True)

    def read(self) -> int:
        with self.env.begin() as transaction, transaction.cursor() as cursor:
            return counted(cursor.iternext(keys=False, values=True))


class Sqlite:
    """A table in WAL mode."""

    def __init__(self, path: str, sync: bool) -> None:
        import sqlite3

        self.db = sqlite3.connect(f"{path}/db", isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self.db.execute("CREATE TABLE log (position INTEGER PRIMARY KEY, value BLOB)")

    def append(self, values: list[bytes]) -> None:
        insert = "INSERT INTO log (value) VALUES (?)"
        if len(values) == 1:
            self.db.execute(insert, values)
            return
        self.db.execute("BEGIN")
        self.db.executemany(insert, ((value,) for value in values))
        self.db.execute("COMMIT")

    def drain(self) -> None:
        self.db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def read(self) -> int:
        return counted(self.db.execute("SELECT value FROM log ORDER BY position"))


class Rocksdict:
    """RocksDB."""

    def __init__(self, path: str, sync: bool) -> None:
        import rocksdict  # type: ignore[import-not-found]

        self.db = rocksdict.Rdict(f"{path}/rocks", rocksdict.Options(raw_mode=True))
        self.options = rocksdict.WriteOptions()
        self.options.sync = sync
        self.db.set_write_options(self.options)
        self.batch = partial(rocksdict.WriteBatch, raw_mode=True)
        self.next, self.lock = 0, threading.Lock()

    def append(self, values: list[bytes]) -> None:
        with self.lock:
            at = self.next
            self.next += len(values)
        if len(values) == 1:
            self.db[at.to_bytes(8, "big")] = values[0]
            return
        batch = self.batch()
        for number, value in enumerate(values, at):
            batch.put(number.to_bytes(8, "big"), value)
        self.db.write(batch, self.options)

    def drain(self) -> None:
        self.db.flush_wal(True)

    def read(self) -> int:
        return counted(self.db.values())


class File:
    """A buffered `write`; a sync append is an unbuffered one and `fsync`."""

    def __init__(self, path: str, sync: bool) -> None:
        file = io.FileIO(f"{path}/file", "wb")
        self.file: Any = file if sync else io.BufferedWriter(file, 1 << 20)
        self.sync = sync

    def append(self, values: list[bytes]) -> None:
        for value in values:
            self.file.write(value)
        if self.sync:
            os.fsync(self.file.fileno())

    def drain(self) -> None:
        self.file.flush()
        os.fdatasync(self.file.fileno())


STORES: dict[str, Any] = {"lmdb": Lmdb, "sqlite": Sqlite, "rocksdict": Rocksdict, "file": File}


def main(role: str, path: str, *settings: str) -> None:
    given = Settings.of(settings)
    store = STORES[given["which"]](path, role == "sync")
    value = given.value()
    batch = BATCH if role == "read" else given.number("batch") or 1
    append, argument = store.append, [value] * batch
    if given["which"] == "file" and role in ("burst", "sustained"):
        append, argument = store.file.write, value  # no method in between

    def put(records: int) -> None:
        for _ in repeat(None, records // batch):
            append(argument)

    def put_and_drain(records: int) -> None:
        """Drain after each 64 MiB, as a careful program does."""
        every = (64 << 20) // len(value)
        for begin in range(0, records, every):
            put(min(every, records - begin))
            store.drain()

    if role == "burst":
        loops.burst(given, put, store.drain)
    elif role == "sustained":
        loops.sustained(given, put_and_drain, store.drain)
    elif role == "sync":
        loops.sync(given, lambda one: append([one]))
    else:
        put(given.number("records"))
        store.drain()
        loops.read(given, store.read)


if __name__ == "__main__":
    main(*sys.argv[1:])
