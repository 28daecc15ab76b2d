"""Agreement: the handles of a log agree from which position on a topic is sealed.

A handle that appends messages of a lower rank holds a lock until it is closed. Meanwhile no handle
raises the rank of the topic, so no message of the lower rank is behind that position.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import weakref
from dataclasses import replace
from typing import Any

from commitlog.base.life_lock import Span, byte, is_held, try_lock
from commitlog.errors import InUseError, SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.log.parts import parts_of
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.schema import Schema
from commitlog.messages.seal_layer import (
    BOUND,
    NAME,
    PLAIN,
    POSITIONS,
    SEALED,
    SINCE,
    has_positions,
    rank_of,
    start_of,
)

_OPTIONS = {PLAIN: "keys=", SEALED: "seal_positions=True"}  # what appenders of a rank are without


class _Locks:
    """The locks of a handle. Forked children share them, because they may append, too."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._held: set[tuple[str, int]] = set()

    def has(self, topic: str, rank: int) -> bool:
        """Return whether this handle appends messages of a rank."""
        return (topic, rank) in self._held

    def take(self, topic: str, rank: int) -> None:
        """Note that this handle appends messages of a rank. No handle has an exclusive lock."""
        try_lock(self._fd, "shared", _span(topic, rank))
        self._held.add((topic, rank))

    def is_taken(self, topic: str, rank: int) -> bool:
        """Return whether any handle appends messages of a rank."""
        return self.has(topic, rank) or is_held(self._fd, span=_span(topic, rank))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a forked child may have closed it
            os.close(self._fd)


_LOCKS: weakref.WeakKeyDictionary[CommitLog, _Locks] = weakref.WeakKeyDictionary()


def _locks_of(log: CommitLog, catalog: SchemaCatalog) -> _Locks:
    """Return the locks of a handle; call this under the lock of the catalog."""
    found = _LOCKS.get(log)
    if found is None:
        found = _LOCKS[log] = _Locks(catalog.lock_path)
        parts_of(log).guests.callback(found.close)
    return found


def _span(topic: str, rank: int) -> Span:
    digest = hashlib.blake2b(topic.encode(), digest_size=6).digest()
    return byte(int.from_bytes(digest, "big") << 2 | rank)


def declare(log: CommitLog, catalog: SchemaCatalog, schema: Schema) -> None:
    """Declare a schema before its first record is appended.

    Raises
    ------
    SchemaError
        Another handle has raised the rank of the topic since this one was opened, or another
        schema has the same number.
    """
    rank = rank_of(schema)
    locks = _LOCKS.get(log)
    if rank == BOUND or (locks is not None and locks.has(schema.topic, rank)):
        catalog.declare(schema)
        return
    with catalog.locked():
        known = catalog.schemas_of(schema.topic).values()
        if any(rank_of(each) > rank for each in known):
            raise SchemaError(
                f"another handle has sealed topic {schema.topic!r} since this one opened it: open "
                "the topic again",
                path=log.path,
                topic=schema.topic,
            )
        _locks_of(log, catalog).take(schema.topic, rank)
        catalog.declare(schema)


class Agreement:
    """Find the layer of sealed messages of a topic.

    Parameters
    ----------
    log : CommitLog
        A log open for appending.
    topic : str
        The name of the topic.
    catalog : SchemaCatalog
        That of the log.
    binds : bool
        Seal messages for their positions, also if those of the topic are not.
    """

    def __init__(self, log: CommitLog, topic: str, catalog: SchemaCatalog, *, binds: bool) -> None:
        self._log = log
        self._topic = topic
        self._catalog = catalog
        self._binds = binds
        self._layer: dict[str, Any] | None = None

    def layer(self, schema: Schema) -> dict[str, Any]:
        """Return the layer of messages that have a schema without it. At the first call, the schema
        with it is declared, so other handles find it.

        Raises
        ------
        InUseError
            Another topic object or handle appends to the topic without sealing as this one does.
        """
        if self._layer is None:
            with self._catalog.locked():
                known = list(self._catalog.schemas_of(self._topic).values())
                layer: dict[str, Any] = {"name": NAME, SINCE: self._start(known, SEALED)}
                if self._binds or any(map(has_positions, known)):
                    layer[POSITIONS] = self._start(known, BOUND)
                self._catalog.declare(replace(schema, layers=(*schema.layers, layer)))
            self._layer = layer
        return self._layer

    def _start(self, known: list[Schema], rank: int) -> int:
        """Return from where on the topic has a rank: from the end of the log on if it had a lower
        one, else from its beginning.
        """
        starts = [start_of(each, rank) for each in known if rank_of(each) >= rank]
        if starts or not known:
            return min(starts, default=0)
        locks = _locks_of(self._log, self._catalog)
        for lower in range(rank):
            if locks.is_taken(self._topic, lower):
                option = _OPTIONS[lower]
                raise InUseError(
                    f"topic {self._topic!r} cannot be sealed: an open log has appended to it "
                    f"without {option}; close each one that does, and then give it {option}",
                    path=self._log.path,
                )
        return self._log.tail_position
