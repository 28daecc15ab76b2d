"""Floors: from which positions on the messages of a topic must be sealed.

A reader with keys refuses what is behind a floor and was written without the keys. The floor is in
each schema whose messages are sealed, so any of them gives it, also after retention has deleted the
first ones. A forged schema can only lower it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commitlog.errors import PositionError, SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.schema import SCHEMA_TYPE, Schema, key_of, number_of
from commitlog.messages.seal_layer import BOUND, PLAIN, SEALED, rank_of, start_of
from commitlog.tail.seek import Visibility

_NEVER = 1 << 63
_MOST_NOTED = 1 << 10
_WHY = {
    PLAIN: "it is not authentic: it is not sealed, and the topic was sealed before it",
    SEALED: "it is not authentic: it is not sealed for its position, and others before it are",
}


@dataclass(eq=False, slots=True)
class Floor:
    """From which positions on the messages of a topic must be sealed, and for their positions."""

    sealed: int = _NEVER
    bound: int = _NEVER

    def least(self, rank: int) -> int:
        """Return from which position on messages of a rank are refused."""
        return self.bound if rank == SEALED else min(self.sealed, self.bound)


class Floors:
    """The floors of the topics of one handle, which all its readers share.

    Attributes
    ----------
    version : int
        How often a floor was lowered.
    """

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, Floor] = {}  # of topics that were asked for
        self._noted: set[bytes] = set()
        self._stamp = -1

    def of(self, topic: str, catalog: SchemaCatalog) -> Floor:
        """Return the floor of a topic, which is lowered in place, as the known schemas have it."""
        floor = self._topics.setdefault(topic, Floor())
        for schema in catalog.listed():
            self._add(schema)
        return floor

    def note(self, key: bytes | None, value: bytes) -> int:
        """Take a schema from its record in the log; return the version."""
        if key is not None and key not in self._noted and key == key_of(number_of(value)):
            with contextlib.suppress(SchemaError):
                schema = Schema.of_value(value)
                self._add(schema)
                if len(self._noted) >= _MOST_NOTED:
                    self._noted = set()
                if schema.topic in self._topics:
                    self._noted.add(key)
        return self.version

    def refresh(self, catalog: SchemaCatalog) -> int:
        """Take the schemas that other handles have declared; return the version."""
        stamp = catalog.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            for schema in catalog.listed():
                self._add(schema)
        return self.version

    def _add(self, schema: Schema) -> None:
        floor = self._topics.get(schema.topic)
        rank = rank_of(schema)
        if floor is None or rank == PLAIN:
            return
        sealed = min(floor.sealed, start_of(schema, SEALED))
        bound = min(floor.bound, start_of(schema, BOUND)) if rank == BOUND else floor.bound
        if (sealed, bound) != (floor.sealed, floor.bound):
            floor.sealed, floor.bound = sealed, bound
            self.version += 1


_FLOORS: weakref.WeakKeyDictionary[CommitLog, Floors] = weakref.WeakKeyDictionary()


def floors_of(log: CommitLog) -> Floors:
    """Return the floors of a handle."""
    return _FLOORS.setdefault(log, Floors())


class FloorWatch:
    """Tell a reader when a floor of its log was lowered: then it has to call `refusing` again."""

    def __init__(self, log: CommitLog) -> None:
        self._floors = floors_of(log)
        self._version = self._floors.version

    def note(self, key: bytes | None, value: bytes) -> bool:
        """Take a schema that the reader passes: it may be the first one of a topic's sealed
        messages. Return whether a floor was lowered since the last call.
        """
        return self._is_later(self._floors.note(key, value))

    def refresh(self, catalog: SchemaCatalog) -> bool:
        """Take the schemas of sealed messages that the reader may skip; return likewise."""
        return self._is_later(self._floors.refresh(catalog))

    def _is_later(self, version: int) -> bool:
        last, self._version = self._version, version
        return version != last


def refusing(
    log: CommitLog, schema: Schema, keys: KeyRing
) -> Callable[[bytes, int, bytes | None], bytes] | None:
    """Return what refuses messages of a schema behind the floor: a `RecordOpener`. None if there is
    no floor yet, or if the reader has no key. A reader calls this again if it passes the schema of
    messages that are better sealed: see `FloorWatch`.
    """
    rank = rank_of(schema)
    if rank == BOUND or not keys.key_ids:
        return None
    catalog = SchemaCatalog(log)
    floors = floors_of(log)
    floor = floors.of(schema.topic, catalog)
    why = _WHY[rank]
    if not catalog.is_listed():
        segments = _Segments(log, floors)
    elif floor.least(rank) == _NEVER:
        return None
    else:
        segments = None

    def checked(value: bytes, position: int, _key: bytes | None) -> bytes:
        if segments is not None:
            segments.note_around(position)
        if position >= floor.least(rank):
            raise ValueError(why)
        return value

    return checked


class _Segments:
    """Note the schemas in the segments of messages, in a log without the folder of schemas."""

    def __init__(self, log: CommitLog, floors: Floors) -> None:
        self._log = log
        self._floors = floors
        self._base = self._end = -1

    def note_around(self, position: int) -> None:
        """Note the schemas in the segment of a message, if those of another were noted last."""
        if self._base <= position < self._end:
            return
        log = self._log
        base = position - position % log.segment_size
        self._base, self._end = base, base + log.segment_size
        visibility: Visibility = "committed" if log.mode == "r" else "appended"
        with log.tailer(on_damage="skip", visibility=visibility) as tailer:
            with contextlib.suppress(PositionError):  # the log begins behind it
                tailer.seek(base)
            while tailer.position < self._end and len(batch := tailer.read_batch()):
                for row in np.flatnonzero(batch.types == SCHEMA_TYPE).tolist():
                    self._floors.note(batch.key(row), batch.value(row))
