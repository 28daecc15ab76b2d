"""One log as every kind of source that Spark can read."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Store, replication, topics
from commitlog.base.polling import attempts
from commitlog.log.parts import parts_of
from tests.copies import copy_log
from tests.spark.conftest import WORKER_KEYS
from tests.spark.logs_in_spark import SIZE, archive
from tests.spark.object_store import object_store
from tests.stores.s3_server import S3Server, served_bucket
from tests.topics.orders import Order, Refund

NAME = "shop"
COUNT = 120
LIMIT_S = 30.0


@dataclass(frozen=True)
class Row:
    """What a reader must find of a record."""

    sequence: int
    position: int
    time_ns: int
    topic: str | None
    message: dict[str, Any] | None


@dataclass(frozen=True)
class Kind:
    """A source: its path, the directory or server above it, and the options that it needs."""

    path: str
    above: str
    options: dict[str, str] = field(default_factory=dict)
    in_workers: bool = True  # whether the session's workers reach it


def build(path: Path, store: Path) -> tuple[commitlog.CommitLog, list[Row]]:
    """Make a log of several segments with two topics, one of them sealed, and plain records; return
    it open, and its rows below the last segment.
    """
    log = commitlog.open(path, segment_size=SIZE, store=Store(store, every="10ms"))
    ring = topics.KeyRing.of_text(WORKER_KEYS)
    orders = commitlog.topic(log, Order)
    sealed = commitlog.topic(log, Refund, name="sealed", keys=ring)
    known: dict[int, tuple[str, dict[str, Any]]] = {}
    for number in range(COUNT):
        ns = (number + 1) * 10**9
        at = orders.append(Order(number), key=b"%d" % number, timestamp_ns=ns)
        known[at] = "Order", {"id": number}
        at = sealed.append(Refund(number), timestamp_ns=ns)
        known[at] = "sealed", {"order": number}
        log.append(b"x" * 2000, timestamp_ns=ns)
    log.roll()
    end = log.tail_position
    log.append(b"end", timestamp_ns=10**12)
    log.flush()
    rows = [
        Row(sequence, each.position, each.timestamp_ns, *known.get(each.position, (None, None)))
        for sequence, each in enumerate(log.tailer(start="first"))
        if each.position < end
    ]
    return log, rows


def _await_store(log: commitlog.CommitLog) -> None:
    writer = parts_of(log).writer
    assert writer is not None
    assert writer.store is not None
    for _ in attempts(LIMIT_S, "the store"):
        if writer.store.kept_position >= log.tail_position // SIZE * SIZE:
            break


def _drop(log: commitlog.CommitLog) -> None:
    _await_store(log)
    log.delete_before(log.tail_position)
    assert log.first_position > SIZE


class Kinds:
    """The sources, by name. They are made when they are first asked for."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._patch = stack.enter_context(pytest.MonkeyPatch.context())
        live, self.rows = build(folder / "live" / NAME, folder / "store" / NAME)
        self._live = stack.enter_context(live)
        _await_store(live)
        copy_log(folder / "live" / NAME, folder / "closed" / NAME)
        with commitlog.open(folder / "closed" / NAME):
            pass
        self._made: dict[str, Kind] = {}

    def __getitem__(self, name: str) -> Kind:
        if name not in self._made:
            self._made[name] = getattr(self, f"make_{name}")()
        return self._made[name]

    def _local(self, folder: str, **options: str) -> Kind:
        place = self._folder / folder / NAME
        return Kind(str(place), str(place.parent), options)

    def make_closed(self) -> Kind:
        return self._local("closed")

    def make_live(self) -> Kind:
        return self._local("live")

    def make_store(self) -> Kind:
        return self._local("store")

    @functools.cached_property
    def _dropped(self) -> commitlog.CommitLog:
        """A log that has deleted what its store has."""
        folder = self._folder / "dropped" / NAME
        copy_log(self._folder / "closed" / NAME, folder)
        store = Store(self._folder / "store2" / NAME, every="10ms")
        log = self._stack.enter_context(commitlog.open(folder, store=store))
        _drop(log)
        return log

    def make_directory_and_store(self) -> Kind:
        assert self._dropped
        return self._local("dropped", store=str(self._folder / "store2" / NAME))

    def make_archive(self) -> Kind:
        archive(self._folder / "closed" / NAME, self._folder / "archive" / NAME)
        return self._local("archive")

    def make_plain_archive(self) -> Kind:
        target = self._folder / "plain" / NAME
        archive(self._folder / "closed" / NAME, target, compressed=False)
        return self._local("plain")

    def _served(self, path: Path, **options: str) -> Kind:
        server = self._stack.enter_context(replication.serve(path))
        url = server.url(NAME)
        return Kind(url, url.removesuffix(f"/{NAME}"), options)

    def make_server(self) -> Kind:
        return self._served(self._folder / "live" / NAME)

    def make_server_and_store(self) -> Kind:
        assert self._dropped
        store = str(self._folder / "store2" / NAME)
        return self._served(self._folder / "dropped" / NAME, store=store)

    def make_arrow_uri(self) -> Kind:
        """An archive that pyarrow opens."""
        archive(self._folder / "closed" / NAME, self._folder / "buckets" / "cold" / NAME)
        query = self._stack.enter_context(object_store(self._folder / "buckets"))
        return Kind(f"s3://cold/{NAME}{query}", f"s3://cold{query}", in_workers=False)

    def make_bucket(self) -> Kind:
        """A store that obstore opens."""
        pytest.importorskip("obstore")
        bucket: S3Server = self._stack.enter_context(served_bucket(self._patch))
        for path in (self._folder / "store" / NAME).iterdir():
            if not path.name.startswith("."):
                bucket.objects[f"{NAME}/{path.name}"] = path.read_bytes()
        return Kind(f"s3://bucket/{NAME}", "s3://bucket", in_workers=False)


@contextlib.contextmanager
def kinds(folder: Path) -> Iterator[Kinds]:
    with contextlib.ExitStack() as stack:
        yield Kinds(folder, stack)


def at(position: int) -> str:
    """Return an offset in JSON."""
    return json.dumps({NAME: {"0": position}})
