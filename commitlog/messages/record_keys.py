"""Record keys of sealed topics: encrypted so that equal keys stay equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from commitlog.base.extras import imported
from commitlog.errors import KeyUnavailableError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.appender import Key
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.cipher import NEEDING
from commitlog.messages.data_key import DataKey
from commitlog.messages.key_ring import KeyRing
from commitlog.messages.layered_appender import LayeredAppender
from commitlog.messages.message_sizes import not_bytes
from commitlog.messages.outputs import OutputAppender
from commitlog.messages.part import Positions
from commitlog.messages.schema import SCHEMA_TYPE, Schema
from commitlog.messages.seal_layer import KEYS, has_sealed_keys

_KEPT = 4096  # record keys that are not encrypted or decrypted again
_BLOCK = 16  # the length of a record key is shown in such steps
_END = b"\1"  # behind a record key; zeros follow


class RecordKeyCipher:
    """Encrypt and decrypt record keys by AES-256-SIV, from any thread.

    Equal record keys of a topic have equal ciphertexts, so seeks by key need no key ring below
    this class.

    Parameters
    ----------
    data_key : DataKey
        Its key is what the cipher's key is derived from.
    log : CommitLog
        The log of the records.
    topic : str
        The name of their topic.
    """

    def __init__(self, data_key: DataKey, log: CommitLog, topic: str) -> None:
        module = imported("cryptography.hazmat.primitives.ciphers.aead", *NEEDING)
        self._cipher = module.AESSIV(data_key.derived(b"commitlog record keys"))
        self._refused = imported("cryptography.exceptions", *NEEDING).InvalidTag
        self._bound = [log.identity.uuid, topic.encode()]
        self.sealed = lru_cache(_KEPT)(self._sealed)
        self.opened = lru_cache(_KEPT)(self._opened)

    def _sealed(self, key: bytes) -> bytes:
        padded = key + _END
        sealed: bytes = self._cipher.encrypt(
            padded.ljust(-(-len(padded) // _BLOCK) * _BLOCK, b"\0"), self._bound
        )
        return sealed

    def _opened(self, stored: bytes) -> bytes:
        try:
            padded: bytes = self._cipher.decrypt(stored, self._bound)
        except (ValueError, self._refused):
            raise ValueError(
                "its record key is not authentic: restore the log from a copy"
            ) from None
        return padded.rstrip(b"\0")[: -len(_END)]


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
    catalog : SchemaCatalog
        That of the log.
    keys : KeyRing
        Wraps the key.
    sealing : callable
        Takes the schema, and returns the layer of messages whose record keys are not sealed.
    """

    def __init__(
        self,
        log: CommitLog,
        schema: Schema,
        catalog: SchemaCatalog,
        keys: KeyRing,
        sealing: Callable[[Schema], dict[str, Any]],
    ) -> None:
        self._log = log
        self._schema = schema
        self._catalog = catalog
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
        return self._found()[0]

    def sealed(self, key: Key | None) -> bytes | None:
        """Return the key that a record gets instead of one; raise as `layer` does."""
        if key is None:
            return None
        if not isinstance(key, bytes | bytearray | memoryview):
            raise not_bytes([key])
        return self._found()[1].sealed(bytes(key))

    def _found(self) -> tuple[dict[str, Any], RecordKeyCipher]:
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


class KeySealingAppender:
    """Append the messages of a topic under sealed record keys. What the methods are given is what
    those of `TopicAppender` take.

    Parameters
    ----------
    record_keys : RecordKeys
        Seals the record keys.
    appender : LayeredAppender or OutputAppender
        Appends the messages.
    """

    def __init__(self, record_keys: RecordKeys, appender: LayeredAppender | OutputAppender) -> None:
        self._sealed = record_keys.sealed
        self._appender = appender

    def append(self, value: bytes, key: Key | None, *given: Any) -> int:
        """Append one message; return its position, or -1 if it was dropped."""
        return self._appender.append(value, self._sealed(key), *given)

    def append_many(self, values: list[bytes], keys: Any, *given: Any) -> Positions:
        """Append messages; return their positions."""
        sealed = None if keys is None else list(map(self._sealed, keys))
        return self._appender.append_many(values, sealed, *given)

    async def append_async(self, value: bytes, key: Key | None, *given: Any) -> int:
        """Append one message, and wait as `CommitLog.append_async` does."""
        return await self._appender.append_async(value, self._sealed(key), *given)


def key_opener(log: CommitLog, schema: Schema, keys: KeyRing) -> Callable[[bytes], bytes] | None:
    """Return what opens the record keys of the messages of a schema; None if they are not sealed.

    It raises `KeyUnavailableError`, and ValueError for a key that is not authentic.
    """
    cipher = _cipher_of(log, schema, keys)
    return None if cipher is None else lambda stored: cipher().opened(stored)


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
            found[cipher().sealed(key)] = None
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
