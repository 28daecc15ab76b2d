"""DataKey: the key of some messages of a topic, and what it seals."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from commitlog import CommitLog
from commitlog.base.extras import imported
from commitlog.topics.cipher import KEY_BYTES, NEEDING, NONCE_BYTES, TAG_BYTES, Cipher
from commitlog.topics.history import end_of
from commitlog.topics.key_ring import KeyRing, is_id, unwrapped_by, wrapped_by

FORMAT = 1
ID_BYTES = 8
HEAD_BYTES = ID_BYTES + NONCE_BYTES
SEALED_MORE = HEAD_BYTES + TAG_BYTES  # bytes that a sealed value has more
ROOM = bytes(SEALED_MORE)  # behind a message that gets its seal when its position is known
# Log, type number, and how many bytes the key id has, which is behind them.
_BOUND = struct.Struct("<16sIH")
_POSITION = struct.Struct("<q")
_KEPT = 4096  # record keys that are not encrypted or decrypted again
_BLOCK = 16  # the length of a record key is shown in such steps
_END = b"\1"  # behind a record key; zeros follow


class DataKey:
    """Seal and open messages of one type number by one key. Any thread may use it.

    A sealed value is the id of the data key, a nonce, the sealed bytes and their tag. Log, type
    number, key id and record key are associated data, and the position if it is given: the value
    opens only with the same ones.

    Parameters
    ----------
    key : bytes
        32 bytes.
    key_id : str
        The id of the master key.
    wrapped : bytes
        The key, wrapped by the master key.
    log : CommitLog
        The log of the messages.
    number : int
        Their type number.

    Attributes
    ----------
    key_id : str
        As given.
    record : tuple of bytes
        Key and value of its record.
    uses : int
        How many values it has sealed.
    """

    def __init__(
        self, key: bytes, key_id: str, wrapped: bytes, log: CommitLog, number: int
    ) -> None:
        self.key_id = key_id
        self.uses = 0
        self._key = key
        self._log = log
        self._number = number
        self._cipher = Cipher(key)
        content = {
            "format": FORMAT,
            "key_id": key_id,
            "wrapped": base64.b64encode(wrapped).decode(),
        }
        value = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        self._id = id_of(value)
        self.record = (key_of(self._id), value)
        encoded = key_id.encode()
        bound = _BOUND.pack(log.identity.uuid, number, len(encoded)) + encoded
        self._unkeyed, self._keyed = bound + b"\0", bound + b"\1"
        self._placed_unkeyed, self._placed_keyed = bound + b"\2", bound + b"\3"

    @classmethod
    def new(cls, ring: KeyRing, log: CommitLog, number: int) -> DataKey:
        """Make a new data key.

        Raises
        ------
        KeyUnavailableError
            The ring cannot wrap it.
        """
        key = os.urandom(KEY_BYTES)
        return cls(key, *wrapped_by(ring, key), log, number)

    @classmethod
    def of_value(cls, value: bytes, ring: KeyRing, log: CommitLog, number: int) -> DataKey:
        """Read the value of a data key's record.

        Raises
        ------
        KeyUnavailableError
            The ring cannot open it.
        ValueError
            The record is damaged, or a newer release wrote it.
        """
        try:
            content = json.loads(value)
            version, key_id = content["format"], content["key_id"]
            wrapped = base64.b64decode(content["wrapped"], validate=True)
        except (KeyError, TypeError, RecursionError, ValueError):
            raise ValueError("the record of its data key is damaged") from None
        if version != FORMAT or not is_id(key_id):
            raise ValueError(
                f"the record of its data key has version {version!r}, and this release reads "
                f"version {FORMAT}: use a newer release"
            )
        return cls(unwrapped_by(ring, key_id, wrapped), key_id, wrapped, log, number)

    def rewrapped(self, ring: KeyRing) -> DataKey:
        """Return the same key, wrapped by the active master key of a ring; raise as `new`."""
        return DataKey(self._key, *wrapped_by(ring, self._key), self._log, self._number)

    def derived(self, purpose: bytes) -> bytes:
        """Return a key of 64 bytes for another purpose."""
        return hmac.digest(self._key, purpose, "sha512")

    def seal_at(
        self, value: bytes, key: bytes | bytearray | None, position: int, nonce: bytes
    ) -> bytes:
        """Return a value sealed with a nonce, for a record with that key at that position."""
        self.uses += 1
        return self._id + nonce + self._cipher.sealed(nonce, value, self._associated(key, position))

    def seal_all(
        self, values: list[bytes], keys: Sequence[bytes | bytearray | None]
    ) -> list[bytes]:
        """Return values sealed with a new nonce each, for records with those keys."""
        self.uses += len(values)
        drawn = os.urandom(NONCE_BYTES * len(values))
        if len(values) == 1:  # at less cost
            sealed = self._cipher.sealed(drawn, values[0], self._associated(keys[0]))
            return [self._id + drawn + sealed]
        nonces = [drawn[at : at + NONCE_BYTES] for at in range(0, len(drawn), NONCE_BYTES)]
        data_key_id, seal, associated = self._id, self._cipher.sealed, self._associated
        return [
            data_key_id + nonce + seal(nonce, value, associated(key))
            for nonce, value, key in zip(nonces, values, keys, strict=True)
        ]

    def opened(self, value: bytes, key: bytes | None, position: int | None = None) -> bytes:
        """Return what was sealed; raise ValueError if it is not authentic."""
        nonce, sealed = value[ID_BYTES:HEAD_BYTES], value[HEAD_BYTES:]
        return self._cipher.opened(nonce, sealed, self._associated(key, position))

    def _associated(self, key: bytes | bytearray | None, position: int | None = None) -> bytes:
        if position is None:
            return self._unkeyed if key is None else b"".join((self._keyed, key))
        place = _POSITION.pack(position)
        if key is None:
            return self._placed_unkeyed + place
        return b"".join((self._placed_keyed, place, key))


class PlaceSeal(NamedTuple):
    """Seals the messages of a schema for their positions.

    Attributes
    ----------
    data_key : DataKey
        Its key seals them.
    has_history : bool
        Whether a history is in front of them, which is not sealed.
    """

    data_key: DataKey
    has_history: bool

    def seal(self, value: bytes, key: bytes | None, position: int, nonce: bytes) -> bytes:
        """Return the value of a record at a position, from a message with `ROOM` behind it."""
        if not self.has_history:
            return self.data_key.seal_at(value[:-SEALED_MORE], key, position, nonce)
        head = end_of(value)
        message = value[head:-SEALED_MORE]
        return value[:head] + self.data_key.seal_at(message, key, position, nonce)


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
        self.seal = lru_cache(_KEPT)(self._seal)
        self.open = lru_cache(_KEPT)(self._open)

    def _seal(self, key: bytes) -> bytes:
        padded = key + _END
        sealed: bytes = self._cipher.encrypt(
            padded.ljust(-(-len(padded) // _BLOCK) * _BLOCK, b"\0"), self._bound
        )
        return sealed

    def _open(self, stored: bytes) -> bytes:
        try:
            padded: bytes = self._cipher.decrypt(stored, self._bound)
        except (ValueError, self._refused):
            raise ValueError(
                "its record key is not authentic: restore the log from a copy"
            ) from None
        return padded.rstrip(b"\0")[: -len(_END)]


def id_of(value: bytes) -> bytes:
    """Return the id of the data key whose record has this value."""
    return hashlib.blake2b(value, digest_size=ID_BYTES).digest()


def key_of(data_key_id: bytes) -> bytes:
    """Return the key of a data key's record."""
    return b"datakey:" + data_key_id.hex().encode()
