"""Sealer: seal the messages of a topic, with a new data key for each segment."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from commitlog._kernel.messages import LastAppend
from commitlog.errors import KeyUnavailableError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.appender import Appending, Key, TopicAppender, checked_keys
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.cipher import KEY_BYTES, check_installed
from commitlog.messages.data_key import DataKey
from commitlog.messages.key_ring import KeyRing, wrapped_by
from commitlog.messages.message_sizes import frames_length, not_bytes
from commitlog.messages.part import ROOM, PlaceSeal
from commitlog.messages.schema import Schema
from commitlog.messages.seal_layer import has_positions

# Of random nonces of 96 bits, two of 2**32 are equal with a probability below 2**-32.
MOST_MESSAGES = 1 << 32


class _Stage(NamedTuple):
    """A data key, and the appender of the messages that it seals."""

    data_key: DataKey
    appender: TopicAppender


class Sealer:
    """Seal the messages of a topic, and return their appender: see `Layered`. If they are sealed
    for their positions, the appender seals them.

    A data key is new for each segment and each object of this class, and after a fork. A list that
    begins in one segment has the same data key in the next. Any thread may use it.

    Parameters
    ----------
    log, schema, catalog, last
        As for `TopicAppender`; the schema is that below this layer.
    keys : KeyRing
        Wraps the data keys.
    layer : callable
        Takes the schema, and returns this layer; called before the first message is sealed.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        catalog: SchemaCatalog,
        last: LastAppend,
        keys: KeyRing,
        *,
        layer: Callable[[Schema], dict[str, Any]],
    ) -> None:
        check_installed()
        self._log = log
        self._schema = schema
        self._layer = layer
        self._catalog = catalog
        self._last = last
        self._keys = keys
        self._stage: _Stage | None = None
        _SEALERS.add(self)

    def one(self, value: bytes, key: Key | None) -> tuple[Appending, bytes]:
        """Return what appends a value, and that value sealed."""
        stage = self._stage
        if (
            stage is None
            or stage.appender.last.position >= stage.appender.declared.far_end
            or stage.data_key.uses >= MOST_MESSAGES
        ):
            stage = self._stage_for([value], [key])
        if stage.appender.seal is not None:
            return stage.appender, _with_room(value, key)
        try:
            return stage.appender, stage.data_key.sealed(value, key)
        except TypeError:
            raise not_bytes([key]) from None

    def many(
        self, values: list[bytes], keys: list[Key | None] | None
    ) -> tuple[Appending, list[bytes]]:
        """Return likewise for some values."""
        given: list[Key | None] = [None] * len(values) if keys is None else keys
        checked_keys(self._log, values, given)
        stage = self._stage_for(values, given)
        if stage.appender.seal is not None:
            return stage.appender, list(map(_with_room, values, given))
        try:
            return stage.appender, stage.data_key.sealed_list(values, keys)
        except TypeError:
            raise not_bytes(given) from None

    def _stage_for(self, values: list[bytes], keys: list[Key | None]) -> _Stage:
        """Return the stage for messages: a new one if the segment has no room for them."""
        stage = self._stage
        if stage is None or stage.data_key.uses + len(values) > MOST_MESSAGES:
            stage = self._stage = self._new()
        # The record of a data key may have been dropped, and a message behind it not.
        is_in_log = stage.appender.declared.end >= 0
        if is_in_log and not stage.appender.has_room(frames_length(values, keys)):
            stage = self._stage = self._new()
        return stage

    def _new(self) -> _Stage:
        key = os.urandom(KEY_BYTES)
        try:
            wrapped = wrapped_by(self._keys, key)  # first, because the layer seals the topic
        except KeyUnavailableError as error:
            error.path = self._log.path
            raise
        schema = replace(self._schema, layers=(*self._schema.layers, self._layer(self._schema)))
        data_key = DataKey(key, *wrapped, self._log, schema.number)
        seal = PlaceSeal(data_key, schema.has_history) if has_positions(schema) else None
        return _Stage(
            data_key,
            TopicAppender(self._log, schema, self._catalog, self._last, data_key.record, seal=seal),
        )

    def forget(self) -> None:
        """Seal no more messages with the data key."""
        self._stage = None


def _with_room(value: bytes, key: Key | None) -> bytes:
    if key is not None and not isinstance(key, bytes | bytearray | memoryview):
        raise not_bytes([key])
    return value + ROOM


_SEALERS: weakref.WeakSet[Sealer] = weakref.WeakSet()


def _forget_in_child() -> None:
    for sealer in list(_SEALERS):
        sealer.forget()


os.register_at_fork(after_in_child=_forget_in_child)
