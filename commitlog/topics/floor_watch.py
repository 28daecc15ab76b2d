"""FloorWatch: readers refuse messages behind a floor, also one that is lowered while they read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from commitlog import CommitLog
from commitlog.errors import PositionError
from commitlog.topics.floors import NEVER, Floors
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from commitlog.topics.seal_layer import BOUND, PLAIN, SEALED, rank_of
from commitlog.topics.topics_state import state_of
from commitlog.types import Visibility

_WHY = {
    PLAIN: "it is not authentic: it is not sealed, and the topic was sealed before it",
    SEALED: "it is not authentic: it is not sealed for its position, and others before it are",
}


class FloorWatch:
    """Find out whether a floor of a log was lowered. If it was, the reader calls `refusing` again.

    Parameters
    ----------
    log : CommitLog
        The log that is read.
    """

    def __init__(self, log: CommitLog) -> None:
        state = state_of(log)
        self._floors = state.floors
        self._catalog = state.catalog
        self._version = self._floors.version

    def note(self, key: bytes | None, value: bytes) -> bool:
        """Note a schema from a record that the reader comes to. Return True if a floor was lowered
        since the last call.
        """
        return self._is_later(self._floors.note(key, value))

    def refresh(self) -> bool:
        """Note the schemas of records that the reader may skip; return likewise."""
        return self._is_later(self._floors.refresh(self._catalog))

    def _is_later(self, version: int) -> bool:
        last, self._version = self._version, version
        return version != last


def refusing(
    log: CommitLog, schema: Schema, keys: KeyRing
) -> Callable[[bytes, int, bytes | None], bytes] | None:
    """Return a `RecordOpener` that refuses messages of a schema behind the floor. Return None if
    there is no floor yet, or if the reader has no key. A reader calls this again after a floor was
    lowered: see `FloorWatch`.
    """
    rank = rank_of(schema)
    if rank == BOUND or not keys.key_ids:
        return None
    state = state_of(log)
    catalog, floors = state.catalog, state.floors
    floor = floors.of(schema.topic, catalog)
    why = _WHY[rank]
    if not catalog.is_listed():
        segments = _Segments(log, floors)
    elif floor.least(rank) == NEVER:
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
