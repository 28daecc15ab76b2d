"""Record keys of sealed topics: encrypted so that equal keys stay equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError
from commitlog.topics.data_key import DataKey, RecordKeyCipher
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from commitlog.topics.seal_layer import KEYS, has_sealed_keys
from commitlog.topics.topics_state import catalog_of


class RecordKeys:
    """Seal the record keys of a topic, from any thread.

    All handles use one key, which is in the schemas of the topic, wrapped by a master key. If
    another master key is active, it wraps the same key again.

    Parameters
    ----------
    log : CommitLog
        A log open for appending.
    schema : Schema
        A schema of the topic, without layers.
    keys : KeyRing
        Wraps the key.
    sealing : callable
        Takes the schema, and returns the layer of messages whose record keys are not sealed.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        keys: KeyRing,
        sealing: Callable[[Schema], dict[str, Any]],
    ) -> None:
        self._log = log
        self._schema = schema
        self._catalog = catalog_of(log)
        self._keys = keys
        self._sealing = sealing
        self._agreed: tuple[dict[str, Any], RecordKeyCipher] | None = None

    def layer(self, _schema: Schema | None = None) -> dict[str, Any]:
        """Return the layer of schemas whose messages have record keys that this object seals.

        Raises
        ------
        KeyUnavailableError
            The ring cannot wrap the key.
        """
        return self._agreement()[0]

    def cipher(self) -> RecordKeyCipher:
        """Return what seals the record keys; raise as `layer` does."""
        return self._agreement()[1]

    def _agreement(self) -> tuple[dict[str, Any], RecordKeyCipher]:
        if self._agreed is None:
            sealing = self._sealing(self._schema)
            try:
                with self._catalog.locked():
                    self._agreed = self._agree(sealing)
            except KeyUnavailableError as error:
                error.path = self._log.path
                raise
        return self._agreed

    def _agree(self, sealing: dict[str, Any]) -> tuple[dict[str, Any], RecordKeyCipher]:
        """Take the key that the schemas of the topic have, else a new one. Its schema is declared
        under the lock, so other handles find it.
        """
        data_key = self._known()
        layer = sealing | {KEYS: data_key.record[1].decode()}
        self._catalog.declare(replace(self._schema, layers=(layer,)))
        return layer, RecordKeyCipher(data_key, self._log, self._schema.topic)

    def _known(self) -> DataKey:
        known = self._catalog.schemas_of(self._schema.topic).values()
        found = None
        for text in sorted({each.layers[-1][KEYS] for each in known if has_sealed_keys(each)}):
            try:
                data_key = DataKey.of_value(text.encode(), self._keys, self._log, SCHEMA_TYPE)
            except (KeyUnavailableError, ValueError):
                continue
            if data_key.key_id == self._keys.key_ids[-1]:
                return data_key
            found = data_key
        if found is None:
            return DataKey.new(self._keys, self._log, SCHEMA_TYPE)
        return found.rewrapped(self._keys)


def key_opener(log: CommitLog, schema: Schema, keys: KeyRing) -> Callable[[bytes], bytes] | None:
    """Return what opens the record keys of the messages of a schema; None if they are not sealed.

    It raises `KeyUnavailableError`, and ValueError for a key that is not authentic.
    """
    cipher = _cipher_of(log, schema, keys)
    return None if cipher is None else lambda stored: cipher().open(stored)


def stored_keys(
    log: CommitLog, schemas: list[Schema], keys: KeyRing, key: bytes
) -> dict[bytes, None]:
    """Return the keys that records of some schemas may have for a record key, without those that
    former master keys sealed and the ring cannot open.

    Raises
    ------
    KeyUnavailableError
        The ring can open none of them.
    """
    found: dict[bytes, None] = {}
    refused = None
    ciphers = [_cipher_of(log, schema, keys) for schema in schemas]
    for cipher in filter(None, ciphers):
        try:
            found[cipher().seal(key)] = None
        except KeyUnavailableError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found


def _cipher_of(
    log: CommitLog, schema: Schema, keys: KeyRing
) -> Callable[[], RecordKeyCipher] | None:
    """Return what makes the cipher of a schema at its first call."""
    if not has_sealed_keys(schema):
        return None

    @cache  # a missing key is an error of the first record that needs it
    def made() -> RecordKeyCipher:
        text = schema.layers[-1][KEYS]
        try:
            data_key = DataKey.of_value(text.encode(), keys, log, SCHEMA_TYPE)
        except KeyUnavailableError as error:
            error.path = log.path
            raise
        return RecordKeyCipher(data_key, log, schema.topic)

    return made
