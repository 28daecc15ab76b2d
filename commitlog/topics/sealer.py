"""MessageSealer: seal the messages of a topic, with a new data key for each segment."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError
from commitlog.topics.cipher import KEY_BYTES, check_installed
from commitlog.topics.data_key import ROOM, DataKey, PlaceSeal
from commitlog.topics.draft import Draft, Variant
from commitlog.topics.key_ring import KeyRing, wrapped_by
from commitlog.topics.message_sizes import frames_length
from commitlog.topics.record_keys import RecordKeys
from commitlog.topics.schema import Schema
from commitlog.topics.seal_layer import has_positions
from commitlog.topics.topics_state import state_of

# Of random nonces of 96 bits, two of 2**32 are equal with a probability below 2**-32.
MOST_MESSAGES = 1 << 32


class MessageSealer:
    """Seal messages and their record keys: the last layer of a topic. If the messages are sealed
    for their positions, it only adds room for the seal, and the appender seals them.

    A data key is new for each segment and each object of this class, and after a fork. A list that
    begins in one segment has the same data key in the next. Any thread may use it.

    Parameters
    ----------
    log : CommitLog
        The log of the topic.
    keys : KeyRing
        Wraps the data keys.
    agreed : callable
        Takes the schema below this layer, and returns the layer; called before the first message is
        sealed.
    record_keys : RecordKeys, optional
        Seals the record keys.
    """

    def __init__(
        self,
        log: CommitLog,
        keys: KeyRing,
        agreed: Callable[[Schema], dict[str, Any]],
        record_keys: RecordKeys | None,
    ) -> None:
        check_installed()
        self._log = log
        self._state = state_of(log)
        self._keys = keys
        self._layer_of = agreed if record_keys is None else record_keys.layer
        self._record_keys = record_keys
        self._seal_key: Callable[[bytes], bytes] | None = None
        self._variants: dict[int, Variant] = {}  # by the type number of the schema below
        self._forks = self._state.forks

    def apply(self, draft: Draft) -> None:
        """Seal the keys and the values of a draft, and set its variant."""
        if self._record_keys is not None:
            if self._seal_key is None:
                self._seal_key = self._record_keys.cipher().seal
            seal_key = self._seal_key
            draft.keys = [None if key is None else seal_key(bytes(key)) for key in draft.keys]
        variant = draft.variant = self._variant_for(draft)
        if variant.seal is not None:
            draft.values = [value + ROOM for value in draft.values]
            return
        assert variant.data_key is not None
        draft.values = variant.data_key.seal_all(draft.values, draft.keys)

    def _variant_for(self, draft: Draft) -> Variant:
        """Return the variant of a draft: with a new data key if the segment has no room for it."""
        if self._forks != self._state.forks:
            self._variants, self._forks = {}, self._state.forks
        variant = self._variants.get(draft.schema.number)
        count = len(draft.values)
        if variant is None or variant.data_key is None:
            return self._begin(draft.schema)
        if variant.data_key.uses + count > MOST_MESSAGES:
            return self._begin(draft.schema)
        fits = count == 1 and self._state.last.position < variant.declared.far_end
        # The record of a data key may have been dropped, and a message behind it not.
        if not fits and variant.declared.end >= 0:
            length = frames_length(draft.values, draft.keys)
            if length >= variant.room(self._log):
                return self._begin(draft.schema)
        return variant

    def _begin(self, schema: Schema) -> Variant:
        """Begin to use a new data key."""
        key = os.urandom(KEY_BYTES)
        try:
            wrapped = wrapped_by(self._keys, key)  # first, because the layer seals the topic
        except KeyUnavailableError as error:
            error.path = self._log.path
            raise
        sealed = replace(schema, layers=(*schema.layers, self._layer_of(schema)))
        data_key = DataKey(key, *wrapped, self._log, sealed.number)
        seal = PlaceSeal(data_key, sealed.has_history) if has_positions(sealed) else None
        variant = self._variants[schema.number] = Variant(sealed, data_key, seal)
        return variant
